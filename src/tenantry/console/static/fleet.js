// The fleet: every tenant as a cell of a map, and the totals as its filters.

import { get, SCHEMA_STATUS, TENANT_MAP } from "./api.js";
import { el, fill } from "./dom.js";
import { homePanels } from "./home.js";
import { isMatch, toolbar, zoomButtons } from "./fleet_filters.js";
import { driftButton, firstPage, matchList, revisionBars, totalsOf } from "./fleet_parts.js";
import { count, plural } from "./format.js";
import { cellGrid } from "./grid.js";
import { hoverCard, sidePanel } from "./map_panel.js";
import { keepQuery } from "./router.js";
import { runChanges, unfinishedRuns } from "./run_bar.js";
import { countsOf, shares, stateOnMap, STATES } from "./states.js";
import { serviceMatches } from "./where.js";
import { complain, failure, heading, linkButton, section, speak } from "./widgets.js";

const CELLS_MAX = 100_000;
// A larger fleet is not read again while a run is running.
const REFRESHED_MAX = 5_000;
const FILTERS = ["state", "search", "where", "server", "revision", "cause"];

/** Show the fleet. */
export async function view({ query, signal }) {
  const home = homePanels(signal);
  const [status, first] = await Promise.all([
    get(SCHEMA_STATUS, { signal }),
    get(TENANT_MAP, { signal }),
  ]);
  if (status.total + status.suspended + status.readOnly === 0) {
    return firstPage();
  }
  return fleetPage(status, first, query, signal, home);
}

function fleetPage(status, first, query, signal, home) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  let tenants = first.items;
  let now = status;
  const service = serviceMatches(signal);
  const card = hoverCard();
  const panel = sidePanel(signal);
  const grid = cellGrid("Map of the fleet", {
    signal,
    describe: (index) => `${tenants[index].name}, ${STATES[stateOf(tenants[index])]}`,
    pick: (index) => panel.show(tenants[index], stateOf(tenants[index]), grid.canvas),
    hover: (index, at) => (index === null ? card.show(null) : showCard(tenants[index], at)),
  });
  const totals = el("ul", { class: "totals", "aria-label": "Totals" });
  const proportions = el("div");
  const revisions = el("div", { class: "stack" });
  const matches = matchList(() => refresh());
  const trouble = el("div");
  const matched = el("p", { class: "hint", role: "status" });

  const moving = () =>
    new Set(unfinishedRuns().flatMap((run) => (run.inWork ?? []).map((one) => one.customerId)));
  let inWork = moving();
  function stateOf(tenant) {
    return inWork.has(tenant.id) ? "moving" : stateOnMap(tenant);
  }

  function showCard(tenant, at) {
    const detail = `${tenant.revision ?? "never seen"} · ${tenant.server}`;
    card.show(at, stateOf(tenant), tenant.name, { detail, error: tenant.cause });
  }

  function draw() {
    inWork = moving();
    const isFiltered = FILTERS.some((name) => filters[name] !== "") && !service.isReading(filters);
    const chosen = isFiltered ? new Set() : null;
    const states = tenants.map((tenant, index) => {
      const state = stateOf(tenant);
      if (chosen !== null && isMatch(tenant, state, filters, service)) {
        chosen.add(index);
      }
      return state;
    });
    grid.set(states);
    grid.highlight(chosen);
    const number = chosen && `${plural(chosen.size, "tenant")} of ${count(tenants.length)}`;
    fill(matched, number);
    matches.draw(chosen && [...chosen].map((index) => tenants[index]), stateOf).catch(complain);
    home.draw(now, tenants);
    const choose = (state) => set({ state });
    fill(totals, totalsOf(now, inWork.size, filters.state, choose));
    fill(proportions, shares(countsOf(now), 0));
    const showOnly = (revision) => set({ revision, state: "" });
    fill(revisions, revisionBars(now, showOnly));
  }

  async function set(changed) {
    Object.assign(filters, changed);
    controls.sync(filters);
    keepQuery(filters);
    draw();
    await askService();
    speak(matched.textContent ?? "");
  }

  async function askService() {
    try {
      await service.read(filters);
    } catch (error) {
      if (error.name !== "AbortError" && !controls.refuses(error)) {
        explain(error);
      }
    }
    draw();
  }

  /** Read the rest of the map. What is shown already stays until all of it is read again. */
  async function readAll(from) {
    let page = from;
    const read = [...page.items];
    while (page.nextAfter !== null && read.length < CELLS_MAX) {
      page = await get(TENANT_MAP, { query: { after: page.nextAfter }, signal });
      read.push(...page.items);
      if (read.length > tenants.length) {
        tenants = [...read];
        draw();
      }
    }
    tenants = read;
    controls.offer(tenants);
  }

  const explain = (error) =>
    signal.aborted ||
    fill(
      trouble,
      failure(error, () => refresh()),
    );

  /**
   * Read the totals, and the map if they have changed: other people work here, too. A large map
   * is read again only when the last run has ended.
   */
  async function refresh(isRunning = false, isChanged = true) {
    try {
      const before = JSON.stringify(now);
      now = await get(SCHEMA_STATUS, { signal });
      draw();
      const isStale = isChanged || JSON.stringify(now) !== before;
      if (isStale && !(isRunning && tenants.length > REFRESHED_MAX)) {
        await whole;
        await readAll(await get(TENANT_MAP, { signal }));
      }
      fill(trouble);
      await askService();
    } catch (error) {
      explain(error);
    }
  }

  let wasRunning = unfinishedRuns().length > 0;
  runChanges.addEventListener(
    "change",
    () => {
      const isRunning = unfinishedRuns().length > 0;
      refresh(isRunning, wasRunning && !isRunning);
      wasRunning = isRunning;
    },
    { signal },
  );
  const controls = toolbar(filters, set);
  controls.offer(tenants);
  draw();
  const whole = readAll(first).catch(explain);
  askService();
  const plan = linkButton("#/runs/plan", "Plan a run", "primary");
  const check = driftButton(() => filters.where, signal, refresh);
  return [
    heading("Fleet", check, plan),
    home.element,
    el("div", { class: "summary" }, totals, proportions),
    el(
      "div",
      { class: "with-panel" },
      el(
        "section",
        { class: "panel map", "aria-label": "Map" },
        el("div", { class: "map-head" }, controls.element, zoomButtons(grid)),
        matched,
        trouble,
        grid.element,
      ),
      panel.element,
    ),
    matches.element,
    section("Revisions", {}, revisions),
    card.element,
  ];
}
