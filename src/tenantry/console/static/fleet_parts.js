// Parts of the page of the fleet.

import { el, fill } from "./dom.js";
import { count, percent, plural, TENANT } from "./format.js";
import { part } from "./router.js";
import { badge, countsOf, figure, STATES } from "./states.js";
import { table } from "./table.js";
import { chosenBy } from "./where.js";
import { actionRow, button, gauge, linkButton, section, tenantLink } from "./widgets.js";

/** The page of a service without tenants. */
export function firstPage() {
  return [
    el("h1", {}, "Fleet"),
    el(
      "div",
      { class: "panel first" },
      el("h2", {}, "Create the first tenant"),
      el(
        "p",
        {},
        "Each tenant gets a database of its own. A migration run then brings all databases to " +
          "the same revision with one call.",
      ),
      el(
        "ol",
        {},
        el("li", {}, "Create a tenant: its owner, its database and its first API key."),
        el("li", {}, "Send requests with the API key, or connect an MCP client."),
        el("li", {}, "Add revisions, and plan a run: every tenant is migrated."),
      ),
      actionRow(
        linkButton("#/tenants/new", "Create a tenant", "primary"),
        linkButton("/docs", "Read the API reference"),
      ),
    ),
  ];
}

/**
 * A button that checks for drift: every tenant, or those that the expression of the map selects.
 *
 * `ended` is called when that has ended.
 */
export function driftButton(whereNow, signal, ended) {
  return button("Check for drift", async () => {
    const { checkAll } = await part(() => import("./drift.js")); // few people need it
    await checkAll(chosenBy(whereNow()), signal, ended);
  });
}

/** The tenants that match the filters, as a table; `changed` is called after some were changed. */
export function matchList(changed) {
  const element = el("div", { class: "stack" });
  let listed = /** @type {any[]} */ ([]);
  let choice = /** @type {any} */ (null);

  async function draw(matching, stateOf) {
    element.hidden = matching === null;
    listed = matching ?? [];
    if (matching === null) {
      return;
    }
    if (choice === null) {
      const { tenantChooser } = await part(() => import("./chosen_tenants.js")); // when needed
      choice ??= tenantChooser({ every: async () => listed, changed });
    }
    const columns = [
      { title: "Name", kind: "name", by: "name", cell: (one) => tenantLink(one.id, one.name) },
      { title: "State", by: stateOf, cell: (one) => badge(stateOf(one)) },
      {
        title: "Revision",
        kind: "minor",
        by: "revision",
        cell: (one) => one.revision ?? "never seen",
      },
      { title: "Server", kind: "minor", by: "server", cell: (one) => one.server },
      { title: "Cause", kind: "minor name", by: "cause", cell: (one) => one.cause ?? "–" },
    ];
    const options = { pageSize: 20, choice };
    const rows = table("Matches", columns, listed, "No tenant matches.", options);
    fill(element, section("Matches", {}, choice.bar, rows));
  }

  return { element, draw };
}

/** The number of tenants at each revision, as bars that filter the map. */
export function revisionBars(status, showOnly) {
  const largest = status.revisions.toSorted((one, other) => other.count - one.count);
  return el(
    "ul",
    { class: "bars" },
    largest.map(({ revision, place, count: number }) =>
      el(
        "li",
        {},
        el(
          "button",
          {
            type: "button",
            class: "bar",
            "data-turn": `revision-${revision}`,
            "aria-label": `${named(revision)}: ${plural(number, "tenant")}, ${STATES[place]}`,
            onclick: () => showOnly(revision ?? ""),
          },
          el("span", { class: "bar-name code" }, named(revision)),
          badge(place),
          gauge(number, status.total, place),
          el("span", { class: "number" }, count(number)),
          el("span", { class: "number hint" }, percent(number, status.total)),
        ),
      ),
    ),
  );
}

/** The totals, which add up to all tenants; each one filters the map. */
export function totalsOf(status, moving, chosen, choose) {
  const counts = countsOf(status);
  const all = status.total + status.suspended + status.readOnly;
  const entry = (state, number, text) =>
    el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          class: `total is-${state || "all"}`,
          "aria-pressed": String(chosen === state),
          "aria-label": `${count(number)} ${text}`,
          "data-turn": `total-${state}`,
          onclick: () => choose(chosen === state ? "" : state),
        },
        figure(state, number),
        el("span", {}, text),
      ),
    );
  return [
    entry("", all, `${TENANT.toLowerCase()}${all === 1 ? "" : "s"}`),
    entry("head", counts.head, "at head"),
    entry("behind", counts.behind, "behind"),
    entry("failing", counts.failing, "failing"),
    counts.drifted > 0 && entry("drifted", counts.drifted, "drifted"),
    entry("unknown", counts.unknown, "unknown"),
    entry("suspended", counts.suspended, STATES.suspended),
    counts.readonly > 0 && entry("readonly", counts.readonly, "read-only"),
    moving > 0 && entry("moving", moving, "migrating"),
  ];
}

function named(revision) {
  return revision ?? "never seen";
}
