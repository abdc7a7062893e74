// The tenants of a run, with a search.

import { el, fill } from "./dom.js";
import { duration, secondsBetween } from "./format.js";
import { field, input } from "./forms.js";
import { badge, outcomeOf } from "./states.js";
import { table } from "./table.js";
import { others, section, tenantLink } from "./widgets.js";

const ROWS_SHOWN_MAX = 50;

const COLUMNS = [
  { title: "Tenant", kind: "name", cell: (one) => tenantLink(one.customerId, one.customerName) },
  { title: "Outcome", cell: (one) => badge(outcomeOf(one)) },
  {
    title: "Applied revisions, or error",
    kind: "wide",
    cell: (one) =>
      one.errorMessage ?? one.appliedMigrations?.split(",").join(", ") ?? "nothing was pending",
  },
  {
    title: "Took",
    kind: "number minor",
    cell: (one) =>
      one.isAttempted ? duration(secondsBetween(one.startedAt, one.finishedAt)) : "–",
  },
  { title: "Database", kind: "minor code name", cell: (one) => one.databaseName },
];

/** The tenants of a run, failed ones first, with a search. */
export function tenantsOf(run, details) {
  const failures = details.filter((one) => one.status === "Failed");
  const all = [...failures, ...details.filter((one) => one.status !== "Failed")];
  const search = input("tenant", { type: "search", placeholder: "Name or database" });
  const rows = el("div", { class: "stack" });
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    const found = all.filter((one) =>
      `${one.customerName} ${one.databaseName}`.toLowerCase().includes(text),
    );
    const hidden = found.length - ROWS_SHOWN_MAX + (text === "" ? run.totalCount - all.length : 0);
    fill(
      rows,
      table("Tenants of the run", COLUMNS, found.slice(0, ROWS_SHOWN_MAX), "No tenant matches."),
      others(hidden, "more tenant", " An export has all of them."),
    );
  };
  search.addEventListener("input", draw);
  draw();
  return section("Tenants", {}, el("div", { class: "toolbar" }, field("Search", search)), rows);
}
