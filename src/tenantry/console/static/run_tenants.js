// The tenants of a run, with a search and a filter.

import { tenantChooser } from "./chosen_tenants.js";
import { el, fill } from "./dom.js";
import { duration, plural, secondsBetween } from "./format.js";
import { field, input, select } from "./forms.js";
import { badge, outcomeOf, STATES } from "./states.js";
import { table } from "./table.js";
import { button, section, tenantLink } from "./widgets.js";

const OUTCOMES = ["success", "failed", "skipped"].map((one) => [one, STATES[one]]);
const COLUMNS = [
  {
    title: "Tenant",
    kind: "name",
    by: "customerName",
    cell: (one) => tenantLink(one.customerId, one.customerName),
  },
  { title: "Outcome", by: outcomeOf, cell: (one) => badge(outcomeOf(one)) },
  {
    title: "Applied revisions, or error",
    kind: "wide",
    by: whatOf,
    cell: (one) => whatOf(one) ?? "nothing was pending",
  },
  {
    title: "Took",
    kind: "number minor",
    by: (one) => (one.isAttempted ? secondsBetween(one.startedAt, one.finishedAt) : null),
    cell: (one) =>
      one.isAttempted ? duration(secondsBetween(one.startedAt, one.finishedAt)) : "–",
  },
  {
    title: "Database",
    kind: "minor code name",
    by: "databaseName",
    cell: (one) => one.databaseName,
  },
];

/**
 * The tenants of a run, failed ones first.
 *
 * @param {any} run
 * @param {any[]} details Of all tenants, or of the failures of a large run.
 * @param {() => Promise<any[]>} readAll Reads those of all tenants.
 */
export function tenantsOf(run, details, readAll) {
  let all = failedFirst(details);
  let matching = all;
  const search = input("tenant", { type: "search", placeholder: "Name or database" });
  const outcome = select("outcome", [["", "Any"], ...OUTCOMES]);
  const rows = el("div", { class: "stack" });
  const choice = tenantChooser({
    idOf: (one) => one.customerId,
    nameOf: (one) => one.customerName,
    every: async () => matching,
  });
  const rest = async () => {
    all = failedFirst(await readAll());
    draw();
  };
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    matching = all.filter(
      (one) =>
        (outcome.value === "" || outcomeOf(one) === outcome.value) &&
        `${one.customerName} ${one.databaseName}`.toLowerCase().includes(text),
    );
    const isPart = run.totalCount > all.length;
    fill(
      rows,
      choice.bar,
      isPart && button(`Read all ${plural(run.totalCount, "tenant")}`, rest),
      table("Tenants of the run", COLUMNS, matching, "No tenant matches.", { choice }),
    );
  };
  search.addEventListener("input", draw);
  outcome.addEventListener("change", draw);
  draw();
  const controls = [field("Search", search), field("Outcome", outcome)];
  return section("Tenants", {}, el("search", { class: "toolbar" }, controls), rows);
}

function whatOf({ errorMessage, appliedMigrations }) {
  return errorMessage ?? appliedMigrations?.split(",").join(", ");
}

function failedFirst(details) {
  const failures = details.filter((one) => one.status === "Failed");
  return [...failures, ...details.filter((one) => one.status !== "Failed")];
}
