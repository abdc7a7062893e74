// The plan of a run: what is pending, grouped by the path of revisions, and what would fail.

import { MIGRATE_ALL, send } from "./api.js";
import { el } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { pendingSql } from "./pending_sql.js";
import { remedyOf } from "./remedies.js";
import { go } from "./router.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { actionRow, button, facts, notice, section, shortId, tenantLink, time } from "./widgets.js";
import { actionOf, budgetInWords, summaryOf, wavesInWords } from "./words.js";

const NOT_STORED =
  "There is no plan to start: the files of the revisions cannot be read, or were replaced " +
  "meanwhile. Show the plan again.";

/** The plan, with the buttons that start a run of exactly this plan. */
export function planned(found, plan, wanted) {
  const start = async (more) => {
    const run = await send(
      "POST",
      MIGRATE_ALL,
      { plan: plan.id, ...more },
      { headers: { Prefer: "respond-async" } },
    );
    go(`/runs/${run.id}`);
  };
  const verb = plan?.undoes ? "Undo" : "Migrate";
  const failed = found.details.filter((one) => one.error !== null);
  const mayStart = plan !== null && plan.runId === null && found.total > 0;
  const somePassed = mayStart && plan.passedCount > 0 && found.failed > 0;
  return section(
    "The plan",
    {},
    el(
      "p",
      { class: `notice is-${found.failed > 0 ? "warning" : "info"}` },
      summaryOf(found, plan),
    ),
    plan === null ? notice("warning", NOT_STORED) : planFacts(plan),
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
    actionRow(
      somePassed &&
        button(`${verb} the ${count(plan.passedCount)} that passed`, () =>
          start({ passedOnly: true }),
        ),
      mayStart && button(actionOf(found, wanted, verb), () => start({}), { kind: "primary" }),
    ),
    table("Pending work by path", PATHS, pathsOf(found, plan), "No tenants are selected."),
    found.revisions.length > 0 && el("h3", {}, "Pending revisions"),
    pendingSql(found.revisions),
    failed.length > 0 && [
      plan !== null && [
        el("h3", {}, "Failures by cause"),
        table("Failures by cause", CAUSES, causesOf(plan, failed), ""),
      ],
      el("h3", {}, "Tenants with an error"),
      table("Tenants with an error", ERRORS, failed, ""),
    ],
  );
}

/** The page of a plan that was stored before, perhaps by another admin. */
export function storedPlan(plan) {
  const found = {
    total: plan.totalCount,
    pending: plan.pendingCount,
    upToDate: plan.upToDateCount,
    failed: plan.failedCount,
    details: plan.details,
    revisions: plan.revisions,
    durations: [],
    expectedMs: null,
  };
  const [waves, maxFailures] = [plan.waves ?? undefined, plan.maxFailures ?? undefined];
  return planned(found, plan, { waves, hold: plan.hold, maxFailures });
}

function planFacts(plan) {
  return facts({
    Plan: [
      shortId(plan.id, "id of the plan"),
      " ",
      el("a", { href: `#/runs/plan?plan=${plan.id}` }, "Show this plan"),
    ],
    Made: time(plan.createdAt),
    Run:
      plan.runId === null ? undefined : el("a", { href: `#/runs/${plan.runId}` }, "Show the run"),
    By: plan.actor,
    "Order in the waves": plan.waves === null ? undefined : plan.order,
    "Failures that each wave allows": plan.waveMaxFailures?.join(", "),
    "Can be started until": time(plan.expiresAt),
  });
}

/** Return the causes, each with the name of a tenant that has it. */
function causesOf(plan, failed) {
  const names = new Map(failed.map((one) => [one.customerId, one.customerName]));
  return plan.causes.map((one) => ({ ...one, name: names.get(one.sampleCustomerId) ?? "" }));
}

/** Return the tenants grouped by the revisions that are pending, the largest group first. */
function pathsOf({ details, durations }, plan) {
  const known = new Map(durations.map((one) => [one.pendingMigrations, one]));
  const paths = new Map();
  for (const one of details) {
    if (one.error === null) {
      const key = `${one.currentRevision} ${one.pendingMigrations}`;
      const path = paths.get(key) ?? {
        from: one.currentRevision,
        pending: one.pendingMigrations,
        isRehearsed: plan?.isRehearsed ?? false,
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
    cell: (path) =>
      path.pending === null
        ? badge("head")
        : badge("behind", path.isRehearsed ? "passed the rehearsal" : "pending, not tried"),
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
const CAUSES = [
  { title: "Tenants", kind: "number", cell: (one) => count(one.count) },
  { title: "Cause", kind: "wide", cell: (one) => el("span", { class: "raw code" }, one.cause) },
  { title: "What to do", kind: "wide", cell: (one) => remedyOf(one.cause) },
  {
    title: "For example",
    kind: "minor name",
    cell: (one) => tenantLink(one.sampleCustomerId, one.name),
  },
];
const ERRORS = [
  {
    title: "Tenant",
    kind: "name",
    by: "customerName",
    cell: (one) => tenantLink(one.customerId, one.customerName),
  },
  { title: "State", cell: () => badge("failed") },
  {
    title: "Error",
    kind: "wide",
    by: "error",
    cell: (one) => el("span", { class: "raw code" }, one.error),
  },
];
