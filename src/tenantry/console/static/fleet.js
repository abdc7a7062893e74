// The fleet: the number of tenants at each revision, and the tenants as tiles.

import { get, HISTORY, SCHEMA_STATUS } from "./api.js";
import { tenantBrowser } from "./browser.js";
import { el } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { badge, mark, STATES, stateOf } from "./states.js";
import { button, linkButton, section, table, heading } from "./widgets.js";

const TILES_ON_A_PAGE = 100;
const REVISIONS_SHOWN_MAX = 12;
// With more failures in the last run, the tiles show only revisions.
const FAILURES_MARKED_MAX = 500;

/** Show the fleet. */
export async function view(page) {
  const { signal } = page;
  const [status, history] = await Promise.all([
    get(SCHEMA_STATUS, { signal }),
    get(HISTORY, { query: { pageSize: 1, details: "none" }, signal }),
  ]);
  const lastRun = history.items[0] ?? null;
  const failing = await failingIn(lastRun, signal);
  const render = (tenants) => tiles(tenants, status.head, failing);
  const browser = tenantBrowser(page, { pageSize: TILES_ON_A_PAGE, status, render });
  const showOnly = async (revision) => {
    await browser.filter({ revision });
    browser.element.scrollIntoView({ block: "start" });
  };
  return [
    heading("Fleet", linkButton("#/runs/plan", "Plan a run", "primary")),
    totals(status, lastRun),
    section("Revisions", {}, map(status), revisions(status, showOnly)),
    section("Tenants", {}, browser.element),
  ];
}

/** Return the ids of the tenants that failed in a run. */
async function failingIn(run, signal) {
  if (run === null || run.failedCount === 0 || run.failedCount > FAILURES_MARKED_MAX) {
    return new Set();
  }
  const { details } = await get(`${HISTORY}/${run.id}`, { query: { details: "failed" }, signal });
  return new Set(details.map((one) => one.customerId));
}

function totals(status, lastRun) {
  const failed = lastRun === null ? 0 : lastRun.failedCount;
  const link = failed > 0 && el("a", { href: `#/runs/${lastRun.id}` }, "failed in the last run");
  return el(
    "ul",
    { class: "totals", "aria-label": "Totals" },
    total("head", status.upToDate, `at head (${status.head})`),
    total("behind", status.behind, "behind"),
    total("failed", failed, link || "failed in the last run"),
    total("unknown", status.unknown, "unknown"),
  );
}

function total(state, number, text) {
  return el(
    "li",
    { class: number > 0 ? `total is-${state}` : "total" },
    el("span", { class: "number" }, mark(state), count(number)),
    el("span", {}, text),
  );
}

/** The fleet as one bar, with a part for each revision; the table below has the same data. */
function map(status) {
  const parts = status.revisions.map(({ revision, count: number }) =>
    el("span", {
      class: `part part-${placeOf(revision, status)}`,
      style: { "flex-grow": number },
      title: `${revision ?? "never seen"}: ${plural(number, "tenant")}`,
    }),
  );
  return el("div", { class: "map", "aria-hidden": "true" }, parts);
}

function revisions(status, showOnly) {
  const columns = [
    { title: "Revision", cell: (one) => one.revision ?? "never seen" },
    { title: "State", cell: (one) => badge(placeOf(one.revision, status)) },
    { title: "Tenants", kind: "number", cell: (one) => count(one.count) },
    { title: "Share", kind: "number minor", cell: (one) => percent(one.count, status.total) },
    {
      title: "Actions",
      kind: "actions",
      // The service has no filter for tenants without a known revision.
      cell: ({ revision }) =>
        revision !== null &&
        button("Show", () => showOnly(revision), { label: `Show the tenants at ${revision}` }),
    },
  ];
  const largest = status.revisions.toSorted((one, other) => other.count - one.count);
  const more = largest.length - REVISIONS_SHOWN_MAX;
  return [
    table(
      "Tenants by revision",
      columns,
      largest.slice(0, REVISIONS_SHOWN_MAX),
      "There are no active tenants.",
    ),
    more > 0 &&
      el("p", { class: "hint" }, `And ${plural(more, "other revision")} with fewer tenants.`),
  ];
}

/** Return the state of a revision. Unknown revisions are counted together. */
function placeOf(revision, status) {
  if (revision === null) {
    return "unknown";
  }
  return revision === status.head ? "head" : "behind";
}

function tiles(tenants, head, failing) {
  if (tenants.length === 0) {
    return el("p", { class: "empty" }, "No tenant matches.");
  }
  return el(
    "ul",
    { class: "tiles" },
    tenants.map((tenant) => {
      const state = stateOf(tenant, head);
      // A tenant that has since reached the head, or is suspended, is not shown as failed.
      const fails = state === "behind" && failing.has(tenant.id);
      return el("li", {}, tile(tenant, fails ? "failed" : state));
    }),
  );
}

function tile(tenant, state) {
  const where = tenant.schemaRevision ?? "never seen";
  return el(
    "a",
    {
      class: `tile is-${state}`,
      href: `#/tenants/${tenant.id}`,
      title: `${tenant.name}: ${STATES[state]}`,
    },
    mark(state),
    el("span", { class: "called" }, tenant.name),
    el("span", { class: "where" }, `${where}, ${STATES[state]}`),
  );
}
