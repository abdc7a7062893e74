// A slim bar on every page while a run is running.

import { get, HEALTH, RUNS } from "./api.js";
import { el, fill } from "./dom.js";
import { count, percent } from "./format.js";

const POLL_MS = 4000;
const RUNS_READ = 10;

/** Dispatches "change" when the unfinished runs were read; an "ended" reads them again. */
export const runChanges = new EventTarget();
let unfinished = /** @type {any[]} */ ([]);
let newest = /** @type {any} */ (null);
let health = /** @type {any} */ (null);

/** Return the newest run, as it was last read; null if there is none, or it was not read. */
export function lastRun() {
  return newest;
}

/** Return the workers and servers, as they were last read; null before. */
export function serviceHealth() {
  return health;
}

/** Return the runs that had not ended when they were last read, the newest first. */
export function unfinishedRuns() {
  return unfinished;
}

/** A bar that is empty without an unfinished run. It is updated until the signal is aborted. */
export function runBar(signal) {
  const bar = el("div", { class: "run-bar", role: "region", "aria-label": "Unfinished runs" });
  bar.hidden = true;
  const read = async () => {
    if (!document.hidden) {
      try {
        const query = { pageSize: RUNS_READ, isFinished: "false" };
        const [{ items }, recent, found] = await Promise.all([
          get(RUNS, { query, signal }),
          get(RUNS, { query: { pageSize: 1 }, signal }),
          get(HEALTH, { signal }), // with the time of the service's clock
        ]);
        unfinished = items;
        newest = recent.items[0] ?? null;
        health = found;
        draw(bar);
        runChanges.dispatchEvent(new Event("change"));
      } catch {
        // The view reports a service that does not answer.
      }
    }
  };
  const timer = setInterval(read, POLL_MS);
  signal.addEventListener("abort", () => {
    clearInterval(timer);
    unfinished = [];
    newest = null;
  });
  addEventListener("hashchange", read, { signal });
  runChanges.addEventListener("ended", read, { signal });
  read();
  return bar;
}

function draw(bar) {
  // The page of a run has its own progress.
  const others = unfinished.filter((run) => !location.hash.endsWith(run.id));
  bar.hidden = others.length === 0;
  const lines = others.map((run) => {
    const failed = run.failedCount - run.notAttemptedCount;
    const ended = run.successCount + failed; // not those that are left out
    return el(
      "a",
      { href: `#/runs/${run.id}`, class: "run-line", "data-turn": run.id },
      el(
        "span",
        { class: "run-line-name cut" },
        `${run.label ?? `Run ${run.id.slice(0, 8)}`}: ${run.state}`,
      ),
      el("progress", {
        max: run.totalCount,
        value: ended,
        "aria-label": `Progress of run ${run.label ?? run.id}`,
      }),
      el(
        "span",
        {},
        `${count(ended)} of ${count(run.totalCount)}, ${percent(ended, run.totalCount)}`,
      ),
      failed > 0 && el("span", { class: "badge is-failed" }, `${count(failed)} failed`),
    );
  });
  fill(bar, lines);
}
