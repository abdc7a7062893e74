// One run: live while it goes on, and then its failures by cause, its durations and its details.

import { get, HISTORY, send } from "./api.js";
import { byCause } from "./causes.js";
import { histogram } from "./charts.js";
import { el, fill } from "./dom.js";
import { confirm } from "./forms.js";
import { duration, plural, secondsBetween } from "./format.js";
import { liveProgress } from "./live.js";
import { runState } from "./runs.js";
import {
  announce,
  badge,
  button,
  facts,
  failure,
  linkButton,
  notice,
  section,
  table,
  time,
} from "./widgets.js";
import { watch } from "./watch.js";

const DETAILS_READ_MAX = 5000;
const ROWS_SHOWN_MAX = 100;
const NAMES_SHOWN_MAX = 5;
const DRAW_EVERY_MS = 250;

/** Show one run. */
export async function run({ params, signal }) {
  const path = `${HISTORY}/${encodeURIComponent(params.id)}`;
  const bare = await get(path, { query: { details: "none" }, signal });
  const details = bare.totalCount > DETAILS_READ_MAX ? "failed" : "all";
  const view = {
    path,
    details,
    signal,
    head: el("div", { class: "stack" }),
    body: el("div", { class: "stack" }),
  };
  if (bare.finishedAt === null) {
    follow(view, bare);
  } else {
    await showEnded(view);
  }
  return [view.head, view.body];
}

/** Draw what comes in until the run has ended, and then its end. */
async function follow(view, bare) {
  const progress = liveProgress(bare);
  const trouble = el("div");
  drawHead(view, bare);
  fill(view.body, trouble, progress.element);
  const drawing = setInterval(progress.draw, DRAW_EVERY_MS);
  try {
    const ended = await watch(view.path, bare, {
      signal: view.signal,
      onTenant: progress.take,
      onRun: progress.update,
      onBreak: () =>
        fill(
          trouble,
          notice("warning", "The connection broke. Trying to reach the service again …"),
        ),
      onBack: () => fill(trouble),
    });
    announce(`The run has ended: ${plural(ended.failedCount, "failure")}.`);
    await showEnded(view);
  } catch (error) {
    if (!view.signal.aborted) {
      fill(trouble, failure(error));
    }
  } finally {
    clearInterval(drawing);
  }
}

async function showEnded(view) {
  const { path, details, signal } = view;
  const [ended, causes] = await Promise.all([
    get(path, { query: { details }, signal }),
    get(`${path}/failure-causes`, { signal }),
  ]);
  const failures = ended.details.filter((one) => one.status === "Failed");
  drawHead(view, ended);
  fill(
    view.body,
    failures.length > 0 && causeGroups(ended, byCause(causes.items, failures)),
    details === "all" && ended.details.length > 0 && durations(ended.details),
    parts(ended, failures),
  );
}

function drawHead(view, run) {
  const isRunning = run.finishedAt === null;
  const cancel = () =>
    confirm(
      "Cancel the run?",
      "Tenants in work are ended; the others are not attempted.",
      "Cancel the run",
      async () => {
        await send("POST", `${view.path}/cancel`);
        announce("The run is being cancelled.");
      },
    );
  const actions = [
    isRunning && button("Cancel the run", cancel, { kind: "danger" }),
    !isRunning &&
      run.failedCount > 0 &&
      linkButton(`#/runs/plan?retryOf=${run.id}`, "Retry all failures"),
  ];
  const told = isRunning
    ? {}
    : {
        Took: duration(secondsBetween(run.startedAt, run.finishedAt)),
        Tenants: plural(run.totalCount, "tenant"),
        Failed: plural(run.failedCount, "tenant"),
      };
  fill(
    view.head,
    el("div", { class: "head" }, el("h1", {}, "Run"), el("div", { class: "actions" }, actions)),
    facts({
      State: runState(run),
      Started: time(run.startedAt),
      ...told,
      By: run.triggeredBy,
      Id: el("span", { class: "code" }, run.id),
    }),
  );
}

function causeGroups(run, groups) {
  const told = groups.map(({ cause, count, details }) => {
    const names = details.slice(0, NAMES_SHOWN_MAX).map((one) => one.customerName);
    const more = count - names.length;
    const query = new URLSearchParams({ retryOf: run.id, cause });
    return el(
      "li",
      { class: "panel cause" },
      el("h3", {}, badge("failed", plural(count, "tenant"))),
      el("p", { class: "code" }, cause),
      el("p", { class: "hint" }, names.join(", "), more > 0 && ` and ${plural(more, "other")}`),
      el(
        "div",
        { class: "actions" },
        details.length > 0 && linkButton(`#/runs/plan?${query}`, "Retry this group"),
      ),
    );
  });
  return section("Failures by cause", {}, el("ul", { class: "causes" }, told));
}

function durations(details) {
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
    title: "Applied, or the error",
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

/** The tenants of a run, those that failed first. */
function parts(run, failures) {
  const others = run.details.filter((one) => one.status !== "Failed");
  const shown = [...failures, ...others].slice(0, ROWS_SHOWN_MAX);
  const more = run.totalCount - shown.length;
  return section(
    "Tenants",
    {},
    table("Tenants of the run", COLUMNS, shown, "No tenant was in it."),
    more > 0 &&
      el(
        "p",
        { class: "hint" },
        `And ${plural(more, "more tenant")}: `,
        el("span", { class: "code" }, `GET ${HISTORY}/${run.id}`),
      ),
  );
}
