// One run: its progress while it is running, and then its result.

import { get, HISTORY, send } from "./api.js";
import { el, fill } from "./dom.js";
import { confirm } from "./forms.js";
import { duration, localTime, plural, secondsBetween } from "./format.js";
import { liveProgress } from "./live.js";
import { causeGroups, durations, parts } from "./outcome.js";
import { runState } from "./runs.js";
import { announce, button, facts, failure, heading, linkButton, notice } from "./widgets.js";
import { watch } from "./watch.js";

const DETAILS_READ_MAX = 5000;
const DRAW_EVERY_MS = 250;
const CAUSES_EVERY_MS = 2000;
const BROKEN = "The connection was lost. Reconnecting…";

/** Show one run. */
export async function view({ params, signal }) {
  const path = `${HISTORY}/${encodeURIComponent(params.id)}`;
  const bare = await get(path, { query: { details: "none" }, signal });
  const details = bare.totalCount > DETAILS_READ_MAX ? "failed" : "all";
  const page = {
    path,
    details,
    signal,
    head: el("div", { class: "stack" }),
    body: el("div", { class: "stack" }),
  };
  if (bare.finishedAt === null) {
    follow(page, bare);
  } else {
    await showEnded(page);
  }
  return [page.head, page.body];
}

/** Show the progress until the run has ended, and then its result. */
async function follow(page, bare) {
  const { path, signal } = page;
  const progress = liveProgress(bare);
  const failing = failuresSoFar(path, bare, signal);
  const trouble = el("div");
  drawHead(page, bare);
  fill(page.body, trouble, progress.element, failing.element);
  const drawing = setInterval(progress.draw, DRAW_EVERY_MS);
  const counting = setInterval(failing.draw, CAUSES_EVERY_MS);
  try {
    const ended = await watch(path, bare, {
      signal,
      onTenant: (detail) => {
        progress.take(detail);
        failing.take(detail);
      },
      onRun: progress.update,
      onBreak: () => fill(trouble, notice("warning", BROKEN)),
      onBack: () => fill(trouble),
    });
    announce(`The run has ended: ${plural(ended.failedCount, "failure")}.`);
    await showEnded(page);
  } catch (error) {
    if (!signal.aborted) {
      fill(trouble, failure(error));
    }
  } finally {
    clearInterval(drawing);
    clearInterval(counting);
  }
}

/** The failures by cause, updated while the run is running. */
function failuresSoFar(path, run, signal) {
  const failures = new Map();
  const element = el("div");
  let shown = 0;

  function take(detail) {
    if (detail.status === "Failed") {
      failures.set(detail.customerId, detail);
    }
  }

  async function draw() {
    if (failures.size === shown) {
      return;
    }
    shown = failures.size;
    try {
      const causes = await get(`${path}/failure-causes`, { signal });
      fill(element, causeGroups(run, causes.items, [...failures.values()]));
    } catch {
      shown = 0; // `follow` reports a service that does not answer
    }
  }

  return { element, take, draw };
}

async function showEnded(page) {
  const { path, details, signal } = page;
  const [ended, causes] = await Promise.all([
    get(path, { query: { details }, signal }),
    get(`${path}/failure-causes`, { signal }),
  ]);
  const failures = ended.details.filter((one) => one.status === "Failed");
  drawHead(page, ended);
  fill(
    page.body,
    failures.length > 0 && causeGroups(ended, causes.items, failures),
    details === "all" && ended.details.length > 0 && durations(ended.details),
    parts(ended, failures),
  );
}

function drawHead(page, run) {
  const isRunning = run.finishedAt === null;
  const cancel = () =>
    confirm(
      "Cancel the run?",
      "Tenants in work finish. The others are not attempted.",
      "Cancel the run",
      async () => {
        await send("POST", `${page.path}/cancel`);
        announce("The run is being cancelled.");
      },
    );
  const actions = [
    isRunning && button("Cancel the run", cancel, { kind: "danger" }),
    !isRunning &&
      run.failedCount > 0 &&
      linkButton(`#/runs/plan?retryOf=${run.id}`, "Retry all failures"),
  ];
  const results = isRunning
    ? {}
    : {
        Took: duration(secondsBetween(run.startedAt, run.finishedAt)),
        Tenants: plural(run.totalCount, "tenant"),
        Failed: plural(run.failedCount, "tenant"),
      };
  fill(
    page.head,
    heading(`Run of ${localTime(run.startedAt)}`, actions),
    facts({
      State: runState(run),
      ...results,
      By: run.triggeredBy,
      Id: el("span", { class: "code" }, run.id),
    }),
  );
}
