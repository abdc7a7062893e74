// The plan of a run: what is pending, grouped by the path of revisions, and what would fail.

import { MIGRATE_ALL, send } from "./api.js";
import { el } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { pendingSql } from "./pending_sql.js";
import { go } from "./router.js";
import { badge } from "./states.js";
import { firstRows, table } from "./table.js";
import { actionRow, button, section, tenantLink } from "./widgets.js";
import { budgetInWords, wavesInWords } from "./words.js";

const ROWS_SHOWN_MAX = 50;

/** Return the summary of a dry run as a sentence. */
export function summaryOf(found) {
  return (
    `${plural(found.pending, "tenant")} of ${count(found.total)} would be migrated, ` +
    `${count(found.upToDate)} ${found.upToDate === 1 ? "is" : "are"} already at head, ` +
    `${count(found.failed)} would fail.`
  );
}

/** "Migrate 9 tenants · 3 waves · stop after 1 failure" */
function actionOf(found, { waves, maxFailures }) {
  const parts = [`Migrate ${plural(found.total, "tenant")}`];
  if (waves !== undefined) {
    parts.push(plural(waves.length, "wave"));
  }
  if (maxFailures !== undefined) {
    const isShare = typeof maxFailures !== "number";
    const most = isShare ? `more than ${maxFailures} failures` : plural(maxFailures + 1, "failure");
    parts.push(`stop after ${most}`);
  }
  return parts.join(" · ");
}

/** The plan, with the button that starts the run. */
export function planned(found, wanted) {
  const start = async () => {
    const run = await send("POST", MIGRATE_ALL, wanted, { headers: { Prefer: "respond-async" } });
    go(`/runs/${run.id}`);
  };
  const failed = found.details.filter((one) => one.error !== null);
  const limit = { max: ROWS_SHOWN_MAX, noun: "more tenant" };
  return section(
    "The plan",
    {},
    el("p", { class: `notice is-${found.failed > 0 ? "warning" : "info"}` }, summaryOf(found)),
    el(
      "p",
      {},
      [
        wavesInWords(wanted.waves?.join(",") ?? "", found.total),
        budgetInWords(String(wanted.maxFailures ?? "")),
        found.expectedMs !== null &&
          `By earlier runs, one process needs about ${duration(found.expectedMs / 1000)}.`,
      ]
        .filter(Boolean)
        .join(" "),
    ),
    actionRow(found.total > 0 && button(actionOf(found, wanted), start, { kind: "primary" })),
    table("Pending work by path", PATHS, pathsOf(found), "No tenants are selected."),
    found.revisions.length > 0 && el("h3", {}, "Pending revisions"),
    pendingSql(found.revisions),
    failed.length > 0 && [
      el("h3", {}, "Tenants with an error"),
      firstRows("Tenants with an error", ERRORS, failed, "", limit),
    ],
  );
}

/** Return the tenants grouped by the revisions that are pending, the largest group first. */
function pathsOf({ details, durations }) {
  const known = new Map(durations.map((one) => [one.pendingMigrations, one]));
  const paths = new Map();
  for (const one of details) {
    if (one.error === null) {
      const key = `${one.currentRevision} ${one.pendingMigrations}`;
      const path = paths.get(key) ?? {
        from: one.currentRevision,
        pending: one.pendingMigrations,
        took: known.get(one.pendingMigrations),
        tenants: [],
      };
      path.tenants.push(one.customerName);
      paths.set(key, path);
    }
  }
  return [...paths.values()].sort((one, other) => other.tenants.length - one.tenants.length);
}

const PATHS = [
  { title: "Tenants", kind: "number", cell: (path) => count(path.tenants.length) },
  {
    title: "State",
    cell: (path) => (path.pending === null ? badge("head") : badge("behind", "pending")),
  },
  { title: "From", kind: "code", cell: (path) => path.from ?? "–" },
  {
    title: "Pending revisions, in order",
    kind: "wide",
    cell: (path) =>
      path.pending === null
        ? "nothing"
        : el(
            "ol",
            { class: "path" },
            path.pending.split(",").map((name) => el("li", { class: "code" }, name)),
          ),
  },
  {
    title: "Each takes",
    kind: "number minor",
    cell: ({ took }) =>
      took === undefined
        ? "–"
        : el(
            "span",
            { title: `The median of ${plural(took.customerCount, "earlier tenant")}` },
            duration(took.medianMs / 1000),
          ),
  },
  {
    title: "For example",
    kind: "minor name",
    cell: (path) => path.tenants.slice(0, 3).join(", "),
  },
];
const ERRORS = [
  { title: "Tenant", kind: "name", cell: (one) => tenantLink(one.customerId, one.customerName) },
  { title: "State", cell: () => badge("failed", "would fail") },
  { title: "Error", kind: "wide", cell: (one) => el("span", { class: "raw code" }, one.error) },
];
