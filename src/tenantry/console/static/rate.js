// The rate at which the tenants of a run end, measured up to now: in a stall it falls.

import { el } from "./dom.js";
import { count, duration, now, secondsBetween } from "./format.js";

const RATE_OVER_MS = 10_000;
const STALL_MS = 10_000;

/** Return a meter: `add` takes the end of a tenant, `text` describes the rate and the time left. */
export function rateMeter() {
  let endings = []; // of the last seconds
  let newest = 0;

  function stalledMs(run) {
    // A run that is holding waits for a person.
    return run.state === "holding" ? 0 : now() - Math.max(newest, Date.parse(run.startedAt));
  }

  function text(run, ended) {
    if (run.finishedAt !== null) {
      const took = secondsBetween(run.startedAt, run.finishedAt);
      return took >= 1 && ended > 0 ? rateText(ended / took) : "";
    }
    const until = now();
    endings = endings.filter((at) => at > until - RATE_OVER_MS);
    const stalled = stalledMs(run);
    if (stalled > STALL_MS) {
      const since = duration(stalled / 1000);
      return el("span", { class: "alarm" }, `no tenant has ended for ${since}`);
    }
    const overMs = Math.min(RATE_OVER_MS, until - Date.parse(run.startedAt));
    if (endings.length === 0 || overMs <= 0) {
      return "";
    }
    const rate = (1000 * endings.length) / overMs;
    const left = duration((run.totalCount - ended) / rate);
    return [el("strong", {}, rateText(rate)), ` · about ${left} left`];
  }

  return {
    text,
    add(finishedAt) {
      const at = Date.parse(finishedAt);
      newest = Math.max(newest, at);
      endings.push(at);
    },
    isStalled: (run) => stalledMs(run) > STALL_MS,
  };
}

function rateText(rate) {
  return `${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} per second`;
}
