// The migration log of a tenant, and why the latest attempt to migrate it failed.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { shortened } from "./format.js";
import { table } from "./table.js";
import { loadInto, section, skeleton, time, unreadable } from "./widgets.js";

const LOG = [
  { title: "Revision", kind: "code", cell: (one) => one.revision },
  { title: "Stream", kind: "minor", cell: (one) => (one.stream === "user" ? "yours" : "Tenantry") },
  { title: "Applied", cell: (one) => time(one.appliedAt) },
  { title: "Run", kind: "minor", cell: runOf },
];
const LOG_SHOWN_MAX = 10;

/** The revisions that the database has, and why the latest attempt failed. */
export function migrations(path, status, signal) {
  const body = el("div", { class: "stack" }, skeleton());
  loadInto(body, signal, async () => {
    const { items, failure } = await get(`${path}/migrations`, { signal });
    const shown = items === null ? unreadable() : logOf(items, status.head);
    fill(body, failure !== null && lastFailure(failure), shown);
  });
  return section("Migrations", {}, body);
}

function logOf(items, head) {
  const more = items.slice(LOG_SHOWN_MAX);
  const empty = `Nothing was applied. The head is ${head}.`;
  const older = el("summary", {}, `${more.length} older`);
  return [
    table("Migrations", LOG, items.slice(0, LOG_SHOWN_MAX), empty),
    more.length > 0 && el("details", {}, older, table("Older migrations", LOG, more, "")),
  ];
}

function runOf({ runId, hasRun }) {
  return hasRun
    ? el("a", { class: "code", href: `#/runs/${runId}` }, shortened(runId))
    : "at creation";
}

function lastFailure({ runId, errorMessage, finishedAt }) {
  return el(
    "div",
    { class: "notice is-bad failure" },
    el("p", {}, "The latest attempt failed ", time(finishedAt), "."),
    el("p", { class: "raw code" }, errorMessage),
    el("a", { href: `#/runs/${runId}` }, "Show the run"),
  );
}
