// Drift: what differs between the schema of a tenant and that of its revision.

import { DRIFT, get, JOBS, send } from "./api.js";
import { el, fill } from "./dom.js";
import { table } from "./table.js";
import { announce, hint, loadInto, section, time } from "./widgets.js";

const POLL_MS = 1000;
const NOTHING = "none";
const COLUMNS = [
  { title: "Object", kind: "minor", by: "kind", cell: (one) => one.kind },
  { title: "Name", kind: "name code", by: "name", cell: (one) => one.name },
  { title: "Defined", kind: "code", by: "expected", cell: (one) => textOf(one.expected) },
  { title: "Found", kind: "code", by: "found", cell: (one) => textOf(one.found) },
];

/** Check the tenants that `chosen` selects, as `chosenBy` returns it; see `check`. */
export function checkAll(chosen, signal, ended) {
  return check(`${DRIFT}/check`, signal, ended, chosen);
}

/** Check for drift, and announce the result; `ended` is called when that has ended. */
export async function check(path, signal, ended, chosen = {}) {
  let job = await send("POST", path, chosen);
  announce("The check for drift is queued.");
  while (job.finishedAt === null && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    job = await get(`${JOBS}/${job.id}`, { signal });
  }
  if (!signal.aborted) {
    announce(job.error === null ? `The check has ended: ${job.note}.` : `It failed: ${job.error}`);
    await ended();
  }
}

/** What has drifted of the tenant at `path`; empty if nothing has. */
export function driftOf(path, driftedAt, signal) {
  const body = el("div", { class: "stack" });
  if (driftedAt !== null) {
    loadInto(body, signal, async () => {
      const { drift } = await get(`${path}/drift`, { signal });
      fill(body, drift !== null && section("Drift", {}, listOf(drift)));
    });
  }
  return body;
}

function listOf({ differences, driftedAt }) {
  return [
    hint("What differs from the revision, checked ", time(driftedAt), "."),
    table("Drift", COLUMNS, differences, ""),
  ];
}

function textOf(detail) {
  return detail === null ? el("span", { class: "hint" }, NOTHING) : detail || "there";
}
