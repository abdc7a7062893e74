// The result of a run: its failures by cause, its durations, its tenants.

import { HISTORY } from "./api.js";
import { byCause } from "./causes.js";
import { histogram } from "./charts.js";
import { el } from "./dom.js";
import { duration, plural, secondsBetween } from "./format.js";
import { badge } from "./states.js";
import { linkButton, section, table } from "./widgets.js";

const ROWS_SHOWN_MAX = 100;
const NAMES_SHOWN_MAX = 5;

/** The failures of a run grouped by cause, each group with a link to retry it. */
export function causeGroups(run, causes, failures) {
  const groups = byCause(causes, failures).map(({ cause, count, details }) => {
    const names = details.slice(0, NAMES_SHOWN_MAX).map((one) => one.customerName);
    const more = count - names.length;
    const retry = `#/runs/plan?${new URLSearchParams({ retryOf: run.id, cause })}`;
    const canRetry = run.finishedAt !== null && details.length > 0;
    return el(
      "li",
      { class: "panel cause" },
      el("h3", {}, badge("failed", plural(count, "tenant"))),
      el("p", { class: "code" }, cause),
      el("p", { class: "hint" }, names.join(", "), more > 0 && ` and ${plural(more, "other")}`),
      canRetry && el("div", { class: "actions" }, linkButton(retry, "Retry this group")),
    );
  });
  return section("Failures by cause", {}, el("ul", { class: "causes" }, groups));
}

/** The durations of the tenants of a run. */
export function durations(details) {
  const seconds = details.map((one) => secondsBetween(one.startedAt, one.finishedAt));
  return section("Durations", {}, el("div", { class: "panel" }, histogram(seconds)));
}

const COLUMNS = [
  {
    title: "Tenant",
    cell: (one) => el("a", { href: `#/tenants/${one.customerId}` }, one.customerName),
  },
  { title: "Outcome", cell: (one) => badge(one.status.toLowerCase()) },
  {
    title: "Applied revisions, or error",
    cell: (one) =>
      one.errorMessage ?? one.appliedMigrations?.split(",").join(", ") ?? "nothing was pending",
  },
  {
    title: "Took",
    kind: "number minor",
    cell: (one) => duration(secondsBetween(one.startedAt, one.finishedAt)),
  },
  { title: "Database", kind: "minor code", cell: (one) => one.databaseName },
];

/** The tenants of a run, failed ones first. */
export function parts(run, failures) {
  const others = run.details.filter((one) => one.status !== "Failed");
  const shown = [...failures, ...others].slice(0, ROWS_SHOWN_MAX);
  const more = run.totalCount - shown.length;
  return section(
    "Tenants",
    {},
    table("Tenants of the run", COLUMNS, shown, "The run had no tenants."),
    more > 0 &&
      el(
        "p",
        { class: "hint" },
        `And ${plural(more, "more tenant")}: `,
        el("span", { class: "code" }, `GET ${HISTORY}/${run.id}`),
      ),
  );
}
