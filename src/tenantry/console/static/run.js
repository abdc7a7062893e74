// One run: live while it goes on, and then what came of it.

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
const BROKEN = "The connection broke. Trying to reach the service again …";

/** Show one run. */
export async function view({ params, signal }) {
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
  const { path, signal } = view;
  const progress = liveProgress(bare);
  const failing = failuresSoFar(path, bare, signal);
  const trouble = el("div");
  drawHead(view, bare);
  fill(view.body, trouble, progress.element, failing.element);
  const drawing = setInterval(progress.draw, DRAW_EVERY_MS);
  const telling = setInterval(failing.draw, CAUSES_EVERY_MS);
  try {
    const ended = await watch(path, bare, {
      signal,
      onTenant: (detail) => [progress.take(detail), failing.take(detail)],
      onRun: progress.update,
      onBreak: () => fill(trouble, notice("warning", BROKEN)),
      onBack: () => fill(trouble),
    });
    announce(`The run has ended: ${plural(ended.failedCount, "failure")}.`);
    await showEnded(view);
  } catch (error) {
    if (!signal.aborted) {
      fill(trouble, failure(error));
    }
  } finally {
    clearInterval(drawing);
    clearInterval(telling);
  }
}

/** The failures by cause, while they become more. */
function failuresSoFar(path, run, signal) {
  const failures = new Map();
  const element = el("div");
  let told = 0;

  function take(detail) {
    if (detail.status === "Failed") {
      failures.set(detail.customerId, detail);
    }
  }

  async function draw() {
    if (failures.size === told) {
      return;
    }
    told = failures.size;
    try {
      const causes = await get(`${path}/failure-causes`, { signal });
      fill(element, causeGroups(run, causes.items, [...failures.values()]));
    } catch {
      told = 0; // whoever watches the run tells of a service that does not answer
    }
  }

  return { element, take, draw };
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
    failures.length > 0 && causeGroups(ended, causes.items, failures),
    details === "all" && ended.details.length > 0 && durations(ended.details),
    parts(ended, failures),
  );
}

function drawHead(view, run) {
  const isRunning = run.finishedAt === null;
  const cancel = () =>
    confirm(
      "Cancel the run?",
      "Tenants in work finish; the others are not attempted.",
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
    heading(`Run of ${localTime(run.startedAt)}`, actions),
    facts({
      State: runState(run),
      ...told,
      By: run.triggeredBy,
      Id: el("span", { class: "code" }, run.id),
    }),
  );
}
