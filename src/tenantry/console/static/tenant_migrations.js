// The migration log of a tenant, and why the latest attempt to migrate it failed.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { isFleet, shortened } from "./format.js";
import { table } from "./table.js";
import { hint, loadInto, section, skeleton, time, unreadable } from "./widgets.js";

const LOG = [
  { title: "Revision", kind: "code", by: "revision", cell: (one) => one.revision },
  {
    title: "Stream",
    kind: "minor",
    by: "stream",
    cell: (one) => (one.stream === "user" ? "yours" : "Tenantry"),
  },
  { title: "Applied", by: "appliedAt", cell: (one) => time(one.appliedAt) },
  { title: "Run", kind: "minor", by: "runId", cell: runOf },
];

/** The revisions that the database has, and why the latest attempt failed. */
export function migrations(path, status, signal) {
  const body = el("div", { class: "stack" }, skeleton());
  loadInto(body, signal, async () => {
    const { items, failure } = await get(`${path}/migrations`, { signal });
    const unread = isFleet ? hint("Each run shows what it has applied.") : unreadable();
    const shown = items === null ? unread : logOf(items, status.head);
    fill(body, failure !== null && lastFailure(failure), shown);
  });
  return section("Migrations", {}, body);
}

function logOf(items, head) {
  const empty = `Nothing was applied. The head is ${head}.`;
  return table("Migrations", LOG, items, empty, { pageSize: 10 });
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
