// The rate at which the tenants of a run end, measured up to now: in a stall it falls.

import { lastKnown } from "./connection.js";
import { el } from "./dom.js";
import { asOf, count, duration, plural, secondsBetween } from "./format.js";

const RATE_OVER_MS = 10_000;
const STALL_MS = 10_000;
const MISSED_MS = 1000;

/**
 * Return a meter: `add` takes the end of a tenant, `text` describes the rate and the time left, and
 * `setLive` says whether ends arrive: while they do not, nothing is known of either.
 */
export function rateMeter() {
  let endings = []; // of the last seconds
  let newest = 0;
  let isLive = true;
  let liveSince = 0;

  function stalledMs(run) {
    // A run that is holding waits for a person; ends that were missed arrive in a moment.
    const isKnown = isLive && lastKnown() === null && asOf() - liveSince > MISSED_MS;
    const isWorking = isKnown && run.state !== "holding";
    return isWorking ? asOf() - Math.max(newest, Date.parse(run.startedAt)) : 0;
  }

  function text(run, ended) {
    if (run.finishedAt !== null) {
      const took = secondsBetween(run.startedAt, run.finishedAt);
      return took >= 1 && ended > 0 ? rateText(ended / took) : "";
    }
    if (!isLive || lastKnown() !== null) {
      return el("span", { class: "hint" }, "Reconnecting…");
    }
    const until = asOf();
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
    return [el("strong", {}, rateText(rate)), ` · ${leftOf(run, ended, rate)}`];
  }

  return {
    text,
    add(finishedAt) {
      const at = Date.parse(finishedAt);
      newest = Math.max(newest, at);
      endings.push(at);
    },
    setLive(changed) {
      liveSince = changed && !isLive ? asOf() : liveSince;
      isLive = changed;
    },
    isStalled: (run) => stalledMs(run) > STALL_MS,
  };
}

/** What is left of the wave: the next one may hold, and tenants in work end at no rate. */
function leftOf(run, ended, rate) {
  const sizes = run.waves ?? [];
  const wave = sizes.findIndex((size) => ended < size && size < run.totalCount);
  const left = (sizes[wave] ?? run.totalCount) - ended;
  const ofWave = wave < 0 ? "" : ` of wave ${wave + 1}`;
  return left <= (run.inWork ?? []).length
    ? `the last ${left === 1 ? "tenant" : plural(left, "tenant")}${ofWave} in work`
    : `about ${duration(left / rate)} left${ofWave}`;
}

function rateText(rate) {
  return `${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))} per second`;
}
