// The migration log of a tenant, and why the latest attempt to migrate it failed.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { table } from "./table.js";
import { failure, section, shortId, skeleton, time } from "./widgets.js";

const LOG = [
  { title: "Revision", kind: "code", cell: (one) => one.revision },
  { title: "Stream", kind: "minor", cell: (one) => (one.stream === "user" ? "yours" : "Tenantry") },
  { title: "Applied", cell: (one) => time(one.appliedAt) },
  { title: "Run", kind: "minor", cell: (one) => shortId(one.runId, "id of the run") },
];
const LOG_SHOWN_MAX = 10;

/** The revisions that the database has, and why the latest attempt failed. */
export function migrations(path, status, signal) {
  const body = el("div", { class: "stack" }, skeleton());
  const load = async () => {
    try {
      const found = await get(`${path}/migrations`, { signal });
      const more = (found.items ?? []).slice(LOG_SHOWN_MAX);
      fill(
        body,
        found.failure !== null && lastFailure(found.failure),
        found.items === null
          ? el("p", { class: "empty" }, "The database of the tenant cannot be read.")
          : table(
              "Migrations",
              LOG,
              found.items.slice(0, LOG_SHOWN_MAX),
              `Nothing was applied. The head is ${status.head}.`,
            ),
        more.length > 0 &&
          el(
            "details",
            {},
            el("summary", {}, `${more.length} older`),
            table("Older migrations", LOG, more, ""),
          ),
      );
    } catch (error) {
      if (!signal.aborted) {
        fill(body, failure(error, load));
      }
    }
  };
  load();
  return section("Migrations", {}, body);
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
