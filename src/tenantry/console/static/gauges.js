// The gauges of a run: its waves, its failure budget, and the tenants in work.

import { el, fill, keyed } from "./dom.js";
import { count, duration, plural, secondsBetween } from "./format.js";
import { outcomeOf, shares, STATES } from "./states.js";
import { gauge } from "./widgets.js";

const IN_WORK_SHOWN_MAX = 12;
const FAILED_SHOWN_MAX = 4;

/** The waves as steps, each with the shares of its outcomes; hidden without waves. */
export function waveSteps() {
  const element = el("ol", { class: "steps", "aria-label": "Waves" });

  /** `states` are the outcomes, in the order of the tenants that have ended: of all, or of none. */
  function draw(run, numbers, states) {
    const sizes = run.waves ?? [];
    element.hidden = sizes.length === 0;
    const current = sizes.findIndex((size) => numbers.ended < size);
    fill(
      element,
      sizes.map((size, index) => {
        const isCurrent = index === current && run.finishedAt === null;
        const from = index === 0 ? 0 : sizes[index - 1];
        const counts = outcomesIn(from, size, numbers, states);
        const inWave = counts.success + counts.failed + counts.running;
        const kind = inWave === size - from ? "is-done" : isCurrent ? "is-current" : "";
        return el(
          "li",
          { class: kind, "aria-current": isCurrent && "step" },
          shares(counts, size - from),
          el("strong", {}, [`Wave ${index + 1}`, nameOf(run, index)].filter(Boolean).join(": ")),
          el("span", {}, `${count(inWave)} of ${count(size - from)}${problemsIn(counts)}`),
        );
      }),
    );
  }

  return { element, draw };
}

/** How a wave names its tenants, such as `server=eu`; undefined for an amount. */
function nameOf(run, index) {
  return run.waveDetails?.[index].where;
}

/** Count the outcomes in a wave: as "running" those of which only the number is known. */
function outcomesIn(from, to, { ended, attempted }, states) {
  const counts = { success: 0, failed: 0, running: 0, skipped: 0 };
  if (states.length < ended) {
    counts.running = Math.max(0, Math.min(attempted, to) - from);
    counts.skipped = Math.max(0, Math.min(ended, to) - from) - counts.running;
    return counts;
  }
  for (const state of states.slice(from, to)) {
    counts[state] += 1;
  }
  return counts;
}

function problemsIn(counts) {
  return ["failed", "skipped"]
    .filter((state) => counts[state] > 0)
    .map((state) => `, ${count(counts[state])} ${STATES[state]}`)
    .join("");
}

/** The failure budget as a meter; hidden without a budget. */
export function budgetMeter() {
  const meter = el("span");
  const text = el("span", { class: "number" });
  const element = el("div", { class: "budget" }, el("span", {}, "Failure budget"), meter, text);

  function draw(run, failed) {
    const most = run.maxFailures;
    element.hidden = most === null;
    if (most !== null) {
      const state = failed > most ? "failed" : "behind";
      fill(meter, gauge(Math.min(failed, most), Math.max(1, most), state, "Failures"));
      const isOver = `${plural(failed, "failure")}: more than the ${count(most)} allowed`;
      fill(text, failed > most ? isOver : `${count(failed)} of ${count(most)} failures allowed`);
    }
  }

  return { element, draw };
}

/** The tenants in work, each with its seconds; hidden after the end of the run. */
export function inWorkStrip() {
  const { element, list, rest } = strip("In work now", "Tenants in work");

  function draw(run, ended, isStalled) {
    const inWork = (run.inWork ?? []).filter((one) => !ended.has(one.customerId));
    element.hidden = run.finishedAt !== null;
    keyed(list, inWork.slice(0, IN_WORK_SHOWN_MAX), {
      key: (one) => one.customerId,
      create: (one) => el("li", {}, linkTo(one), el("span", { class: "number" })),
      update: (item, one) => fill(item.lastElementChild, duration(secondsBetween(one.since, null))),
    });
    const more = inWork.length - IN_WORK_SHOWN_MAX;
    const isIdle = isStalled || (run.abandoned ?? []).length > 0;
    const none = inWork.length === 0 && (isIdle ? "no tenant" : "each for less than a second");
    fill(rest, more > 0 ? `and ${count(more)} more` : none);
  }

  return { element, draw };
}

/** The tenants that have failed last, the newest first; hidden after the end of the run. */
export function latestFailures() {
  const { element, list } = strip("Failed last", "Tenants that have failed last");
  element.classList.add("is-failed");

  function draw(run, details) {
    const failures = [];
    for (let at = details.length - 1; at >= 0 && failures.length < FAILED_SHOWN_MAX; at -= 1) {
      if (outcomeOf(details[at]) === "failed") {
        failures.push(details[at]);
      }
    }
    element.hidden = run.finishedAt !== null || failures.length === 0;
    keyed(list, failures, {
      key: (one) => one.customerId,
      create: (one) => el("li", { title: one.errorMessage }, linkTo(one)),
      update: () => {},
    });
  }

  return { element, draw };
}

function strip(title, label) {
  const list = el("ul", { class: "in-work", "aria-label": label });
  const rest = el("p", { class: "hint" });
  const element = el("div", { class: "strip" }, el("span", { class: "hint" }, title), list, rest);
  return { element, list, rest };
}

function linkTo({ customerId, customerName }) {
  return el("a", { class: "cut", href: `#/tenants/${customerId}` }, customerName);
}
