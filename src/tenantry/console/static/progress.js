// The progress of a run: waves, failure budget, rate, tenants in work, and a cell for each tenant.

import { el, fill } from "./dom.js";
import { count, localTime, percent, plural } from "./format.js";
import { budgetMeter, inWorkStrip, latestFailures, waveSteps } from "./gauges.js";
import { cellGrid } from "./grid.js";
import { hoverCard } from "./map_panel.js";
import { rateMeter } from "./rate.js";
import { go } from "./router.js";
import { unfinishedRuns } from "./run_bar.js";
import { figure, outcomeOf, shares, STATES } from "./states.js";
import { notice, speak } from "./widgets.js";

const SPOKEN_EVERY_PERCENT = 25;

/**
 * Return the element and its updates: `take` adds a tenant that has ended, `update` sets the run,
 * `draw` renders.
 *
 * @param {any} run Its current state.
 * @param {AbortSignal} signal Of the view.
 */
export function runProgress(run, signal) {
  const seen = new Map();
  let order = []; // of the tenants, as they end
  let states = [];
  const meter = rateMeter();
  let state = run;
  let spoken = 0;
  const grid = cellGrid("Tenants of the run", {
    signal,
    describe,
    pick: (index) => order[index] && go(`/tenants/${order[index].customerId}`),
    hover: showCard,
  });
  const card = hoverCard();
  const bar = el("div", { role: "progressbar", "aria-label": "Tenants that have ended" });
  const rate = el("p", { class: "rate" });
  const counts = el("ul", { class: "totals", "aria-label": "Tenants by outcome" });
  const waiting = el("div", { class: "stack" });
  const steps = waveSteps();
  const budget = budgetMeter();
  const strip = inWorkStrip();
  const latest = latestFailures();
  let waitedFor = "";

  function take(detail) {
    if (!seen.has(detail.customerId)) {
      seen.set(detail.customerId, detail);
      order.push(detail);
      states.push(outcomeOf(detail));
      meter.add(detail.finishedAt);
    }
  }

  /** Replace what was taken by all details of the run, in their order. */
  function takeAll(details) {
    seen.clear();
    order = [];
    states = [];
    details.forEach(take);
  }

  function current() {
    const taken = { success: 0, failed: 0, skipped: 0 };
    for (const one of states) {
      taken[one] += 1;
    }
    // The counts of the run arrive in batches, after the tenants.
    const success = Math.max(state.successCount, taken.success);
    const skipped = Math.max(state.notAttemptedCount, taken.skipped);
    const failed = Math.max(state.failedCount - state.notAttemptedCount, taken.failed);
    const ended = Math.min(state.totalCount, success + failed + skipped);
    const attempted = Math.min(state.totalCount, success + failed);
    return { success, failed, skipped, ended, attempted, pending: state.totalCount - ended };
  }

  function draw() {
    const numbers = current();
    const { success, failed, skipped } = numbers;
    const total = Math.max(1, state.totalCount);
    bar.ariaValueMax = String(total);
    bar.ariaValueNow = String(state.totalCount === 0 ? 1 : numbers.attempted);
    fill(bar, shares({ success, failed, skipped }, total));
    fill(rate, meter.text(state, state.finishedAt === null ? numbers.ended : numbers.attempted));
    fill(
      counts,
      el(
        "li",
        { class: "total" },
        el("span", { class: "number" }, percent(numbers.attempted, state.totalCount)),
        el("span", {}, `${count(numbers.attempted)} of ${plural(state.totalCount, "tenant")}`),
      ),
      entry("success", numbers.success),
      entry("failed", numbers.failed),
      (numbers.skipped > 0 || state.stopReason !== null) && entry("skipped", numbers.skipped),
      state.finishedAt === null && entry("pending", numbers.pending),
    );
    steps.draw(state, numbers, states);
    budget.draw(state, numbers.failed);
    drawWaiting(numbers);
    strip.draw(state, seen, meter.isStalled(state));
    latest.draw(state, order);
    drawGrid(numbers);
    speakOf(numbers.attempted);
  }

  function entry(name, number) {
    const kind = `total is-${name}`;
    return el("li", { class: kind }, figure(name, number), " ", el("span", {}, STATES[name]));
  }

  function drawWaiting({ pending }) {
    const servers = (state.waitingFor ?? []).map(
      (one) => `${one.server} since ${localTime(one.since)}${one.cause ? ` (${one.cause})` : ""}`,
    );
    const others = unfinishedRuns().filter((one) => one.id < state.id && one.state !== "holding");
    const idle = state.finishedAt === null && pending > 0 && (state.inWork ?? []).length === 0;
    const isBehind = idle && others.length > 0 && meter.isStalled(state);
    const lost = state.abandoned ?? [];
    const texts = [
      lost.length > 0 &&
        `${plural(lost.length, "tenant")} abandoned by a worker that is silent since ` +
          `${localTime(lost[0].since)}. Another worker takes over.`,
      servers.length > 0 && `Waiting for server ${servers.join(", ")}.`,
      isBehind && `Waiting for workers: they are at work on ${plural(others.length, "older run")}.`,
    ].filter(Boolean);
    if (texts.join() !== waitedFor) {
      waitedFor = texts.join();
      fill(
        waiting,
        texts.map((text) => notice("warning", text)),
      );
    }
  }

  function drawGrid(numbers) {
    const moving = (state.inWork ?? []).filter((one) => !seen.has(one.customerId)).length;
    const known = states.length;
    // After the end of a large run only the failures are read; the others have succeeded.
    const rest = state.totalCount - known;
    const isOver = state.finishedAt !== null;
    const more = Array.from({ length: Math.max(0, rest) }, (_, index) =>
      isOver ? "success" : index < moving ? "moving" : "pending",
    );
    grid.set([...states, ...more]);
    grid.canvas.dataset.failed = String(numbers.failed);
  }

  function describe(index) {
    const one = order[index];
    return one ? `${one.customerName}, ${STATES[states[index]]}` : "Remaining tenant";
  }

  function showCard(index, at) {
    const one = index === null ? undefined : order[index];
    card.show(one ? at : null, states[index], one?.customerName, { error: one?.errorMessage });
  }

  function speakOf(ended) {
    const percents = (100 * ended) / Math.max(1, state.totalCount);
    const reached = Math.floor(percents / SPOKEN_EVERY_PERCENT);
    if (reached > spoken && state.finishedAt === null) {
      spoken = reached;
      speak(`${reached * SPOKEN_EVERY_PERCENT} percent of the tenants have ended.`);
    }
  }

  const element = el(
    "section",
    { class: "run-progress", "aria-label": "Progress" },
    el("div", { class: "summary" }, counts, bar),
    el(
      "div",
      { class: "panel stack" },
      el("div", { class: "run-top" }, rate, budget.element),
      steps.element,
      waiting,
      el("div", { class: "strips" }, strip.element, latest.element),
      grid.element,
    ),
    card.element,
  );
  return {
    element,
    take,
    takeAll,
    draw,
    taken: () => order,
    setLive: meter.setLive,
    update(changed) {
      state = changed;
    },
  };
}
