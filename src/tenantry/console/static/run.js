// One run, while it is running and afterwards: the same view.

import { get, HISTORY, RUNS } from "./api.js";
import { causeBench } from "./causes.js";
import { histogram } from "./charts.js";
import { el, fill } from "./dom.js";
import { count, plural, secondsBetween } from "./format.js";
import { keepWatching } from "./keeper.js";
import { runProgress } from "./progress.js";
import { drawElapsed, drawHead } from "./run_head.js";
import { runChanges } from "./run_bar.js";
import { tenantsOf } from "./run_tenants.js";
import { mark } from "./states.js";
import { untilAnswered, watch } from "./watch.js";
import { announce, failure, section } from "./widgets.js";

const DETAILS_READ_MAX = 5000;
const DRAW_EVERY_MS = 250;
const CAUSES_EVERY_MS = 2000;

/** Show one run. */
export async function view({ params, signal }) {
  const id = encodeURIComponent(params.id);
  const [path, history] = [`${RUNS}/${id}`, `${HISTORY}/${id}`];
  const run = await get(path, { signal });
  const page = {
    path,
    history,
    signal,
    run,
    head: el("div", { class: "stack" }),
    trouble: el("div"),
    progress: runProgress(run, signal),
    bench: causeBench(),
    after: el("div", { class: "stack" }),
  };
  drawHead(page);
  if (run.finishedAt === null) {
    page.progress.draw();
    follow(page);
  } else {
    await showEnded(page);
  }
  return [page.head, page.trouble, page.progress.element, page.bench.element, page.after];
}

/** Show the progress until the run has ended, and then its result. */
async function follow(page) {
  const { path, signal, progress } = page;
  const failures = new Map();
  let counted = -1;
  keepWatching(signal);
  const tick = () => {
    progress.draw();
    drawElapsed(page);
  };
  const countCauses = async () => {
    if (failures.size !== counted) {
      counted = failures.size;
      try {
        const causes = await get(`${page.history}/failure-causes`, { signal });
        page.bench.draw(page.run, causes.items, [...failures.values()]);
      } catch {
        counted = -1; // `watch` reports a service that does not answer
      }
    }
  };
  const onBreak = () => progress.setLive(false);
  const drawing = setInterval(tick, DRAW_EVERY_MS);
  const counting = setInterval(countCauses, CAUSES_EVERY_MS);
  try {
    page.run = await watch(`${page.history}/events`, path, page.run, {
      signal,
      onTenant: (detail) => {
        progress.take(detail);
        if (detail.status === "Failed") {
          failures.set(detail.customerId, detail);
        }
      },
      onRun: (changed) => {
        const { state, heldBecause } = page.run;
        const isNew = changed.state !== state || changed.heldBecause !== heldBecause;
        page.run = changed;
        progress.update(changed);
        if (isNew) {
          drawHead(page);
        }
      },
      onBreak,
      onBack: () => progress.setLive(true),
    });
    runChanges.dispatchEvent(new Event("ended"));
    announce(...endOf(page.run));
    await untilAnswered(() => showEnded(page), { signal, onBreak });
  } catch (error) {
    if (!signal.aborted) {
      fill(page.trouble, failure(error));
    }
  } finally {
    clearInterval(drawing);
    clearInterval(counting);
  }
}

function endOf(run) {
  const failed = run.failedCount - run.notAttemptedCount;
  const succeeded = plural(run.successCount, "tenant");
  const left = run.notAttemptedCount > 0 ? `, ${count(run.notAttemptedCount)} not attempted` : "";
  const text = `The run has ended: ${succeeded} succeeded, ${count(failed)} failed${left}.`;
  return failed > 0 || left ? [text, mark("failed")] : [text];
}

async function showEnded(page) {
  const { path, progress, signal } = page;
  const onlyFailed = page.run.totalCount > DETAILS_READ_MAX;
  const readAll = async () => (await get(`${path}/tenants`, { signal })).items;
  const [ended, found, causes] = await Promise.all([
    get(path, { signal }),
    get(`${path}/tenants`, { query: { onlyFailed: String(onlyFailed) }, signal }),
    get(`${page.history}/failure-causes`, { signal }),
  ]);
  page.run = ended;
  const details = found.items;
  if (progress.taken().length < details.length) {
    progress.takeAll(details);
  }
  progress.update(ended);
  progress.draw();
  drawHead(page);
  const failures = details.filter((one) => one.status === "Failed");
  page.bench.draw(ended, causes.items, failures);
  const attempted = details.filter((one) => one.isAttempted);
  const seconds = attempted.map((one) => secondsBetween(one.startedAt, one.finishedAt));
  fill(
    page.after,
    !onlyFailed &&
      seconds.length > 0 &&
      section("Durations", {}, el("div", { class: "panel" }, histogram(seconds))),
    tenantsOf(ended, details, readAll),
  );
}
