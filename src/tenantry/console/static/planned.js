// The plan of a run: what is pending, grouped by the path of revisions, and what would fail.

import { MIGRATE_ALL, send } from "./api.js";
import { el } from "./dom.js";
import { count, duration } from "./format.js";
import { pendingSql } from "./pending_sql.js";
import { CAUSES, ERRORS, PATHS, SLOWEST } from "./plan_columns.js";
import { go } from "./router.js";
import { table } from "./table.js";
import { actionRow, button, facts, notice, section, shortId, time } from "./widgets.js";
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
        wavesInWords(wanted.waves?.join("\n") ?? "", found.total),
        budgetInWords(String(wanted.maxFailures ?? "")),
        found.expectedMs !== null &&
          `By earlier runs, one process needs about ${duration(found.expectedMs / 1000)}.`,
        plan?.estimatedMs != null &&
          `By the rehearsal, one process needs about ${duration(plan.estimatedMs / 1000)}.`,
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
    slowestOf(plan),
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
  const { hold, maxErrorRate } = plan;
  return planned(found, plan, { waves, hold, maxFailures, maxErrorRate });
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
    Where: plan.where ?? undefined,
    "Order in the waves": plan.waves === null ? undefined : plan.order,
    "Failures that each wave allows": plan.waveMaxFailures?.join(", "),
    "Errors (5xx) that may be added": plan.maxErrorRate ?? undefined,
    "Can be started until": time(plan.expiresAt),
  });
}

/** The tenants whose rehearsal has taken longest; nothing of a plan that was not rehearsed. */
function slowestOf(plan) {
  const slowest = plan?.slowest ?? [];
  return (
    slowest.length > 0 && [
      el("h3", {}, "The slowest tenants"),
      table("The slowest tenants", SLOWEST, slowest, ""),
    ]
  );
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
