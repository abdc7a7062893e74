// The history of runs: a timeline, the list with the same data, and the stored plans.

import { PLANS, RUNS } from "./api.js";
import { timeline } from "./charts.js";
import { el, fill } from "./dom.js";
import { count, duration, localTime, secondsBetween } from "./format.js";
import { listing } from "./listing.js";
import { badge } from "./states.js";
import { heading, linkButton, section, time } from "./widgets.js";

// As many as a chart can show on a narrow screen.
const RUNS_ON_A_PAGE = 30;

const failedOf = (run) => run.failedCount - run.notAttemptedCount;
const RUN_COLUMNS = [
  {
    title: "Run",
    kind: "name",
    by: (run) => run.label ?? localTime(run.startedAt),
    cell: (run) => el("a", { href: `#/runs/${run.id}` }, run.label ?? localTime(run.startedAt)),
  },
  { title: "State", by: "state", cell: (run) => badge(run.state) },
  { title: "Started", kind: "minor", by: "startedAt", cell: (run) => time(run.startedAt) },
  { title: "Tenants", kind: "number", by: "totalCount", cell: (run) => count(run.totalCount) },
  { title: "Failed", kind: "number", by: failedOf, cell: (run) => failuresOf(failedOf(run)) },
  {
    title: "Not attempted",
    kind: "number minor",
    by: "notAttemptedCount",
    cell: (run) => count(run.notAttemptedCount),
  },
  {
    title: "Took",
    kind: "number minor",
    by: (run) => run.finishedAt && secondsBetween(run.startedAt, run.finishedAt),
    cell: (run) =>
      run.finishedAt === null ? "–" : duration(secondsBetween(run.startedAt, run.finishedAt)),
  },
  { title: "By", kind: "minor", by: "triggeredBy", cell: (run) => run.triggeredBy },
];
const PLAN_COLUMNS = [
  {
    title: "Plan",
    kind: "name",
    by: (plan) => plan.label ?? plan.createdAt,
    cell: (plan) =>
      el("a", { href: `#/runs/plan?plan=${plan.id}` }, plan.label ?? localTime(plan.createdAt)),
  },
  { title: "Made", kind: "minor", by: "createdAt", cell: (plan) => time(plan.createdAt) },
  {
    title: "Pending",
    kind: "number",
    by: "pendingCount",
    cell: (plan) => count(plan.pendingCount),
  },
  {
    title: "Failed",
    kind: "number",
    by: "failedCount",
    cell: (one) => failuresOf(one.failedCount),
  },
  {
    title: "Rehearsed",
    kind: "minor",
    by: (plan) => Number(plan.isRehearsed),
    cell: (plan) => (plan.isRehearsed ? `${count(plan.passedCount)} passed` : "no"),
  },
  { title: "By", kind: "minor", by: "actor", cell: (plan) => plan.actor },
  { title: "Can be started until", kind: "minor", by: "expiresAt", cell: startableUntil },
  {
    title: "Run",
    cell: (plan) => (plan.runId ? el("a", { href: `#/runs/${plan.runId}` }, "Show the run") : "–"),
  },
];

/** Show the runs and the plans. */
export async function view({ query, signal }) {
  const chart = el("div", { class: "panel" });
  const shown = section("Timeline", {}, chart);
  shown.hidden = true;
  const runs = listing("History", {
    path: RUNS,
    columns: RUN_COLUMNS,
    empty: "There are no runs yet.",
    signal,
    pageSize: RUNS_ON_A_PAGE,
    filters: { page: query.get("page") ?? "" },
    loaded: ({ items }) => {
      shown.hidden = items.length === 0;
      fill(chart, items.length > 0 && timeline(items));
    },
  });
  const plans = listing("Stored plans", {
    path: PLANS,
    columns: PLAN_COLUMNS,
    empty: "No plan is stored. “Show the plan” stores one, for you and other admins.",
    signal,
    pageSize: 10,
  });
  const plan = linkButton("#/runs/plan", "Plan a run", "primary");
  return [heading("Runs", plan), shown, runs.element, plans.element];
}

function startableUntil(plan) {
  return plan.runId === null ? time(plan.expiresAt) : "started";
}

function failuresOf(number) {
  return number === 0 ? "0" : el("strong", { class: "alarm" }, count(number));
}
