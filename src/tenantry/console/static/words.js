// Waves, the failure budget and plans: parsing, and descriptions in words.

import { count, plural, shortTime } from "./format.js";

const ALL = "100%";
const SIZE = /^(\d+)\s*(%?)$/;

/** Return `3` of "3" and `"5%"` of "5 %". */
export function parseSize(text) {
  const found = SIZE.exec(text.trim());
  if (found === null) {
    throw new Error(
      `“${text.trim()}” is neither a number of tenants, such as 3, nor a percentage, such as 5%.`,
    );
  }
  return found[2] === "%" ? `${Number(found[1])}%` : Number(found[1]);
}

/** Return waves, one of each line, as the command line has one of each `--wave`. */
export function parseWaves(text) {
  const lines = text.split("\n").map((one) => one.trim());
  return lines.filter(Boolean).map((one) => (isName(one) ? one : parseSize(one)));
}

/** Return whether a wave names its tenants, such as `plan in (free, trial)`: it is no amount. */
export function isName(wave) {
  return !/^\d+$|%$/.test(String(wave));
}

/**
 * Describe waves in words.
 *
 * @param {string} text As typed.
 * @param {number|null} [total] The number of tenants, if it is known.
 */
export function wavesInWords(text, total = null) {
  if (text.trim() === "") {
    return "All tenants may start at once.";
  }
  try {
    const sizes = parseWaves(text);
    const listed = sizes.map((size) => sizeInWords(size, total)).join(", then ");
    const waits = sizes.length > 1 ? " Each wave starts when the previous one has ended." : "";
    const rest = sizes.at(-1) === ALL ? "" : " The remaining tenants are not attempted.";
    return `First ${listed}.${waits}${rest}`;
  } catch (error) {
    return error.message;
  }
}

/** Describe the failure budget in words. */
export function budgetInWords(text) {
  if (text.trim() === "") {
    return "Failures do not stop the run: every tenant is attempted.";
  }
  try {
    const size = parseSize(text);
    if (size === 0) {
      return "The run stops at the first failure; the remaining tenants are not attempted.";
    }
    const budget = sizeInWords(size, null);
    return `The run stops when more than ${budget} have failed; the rest is not attempted.`;
  } catch (error) {
    return error.message;
  }
}

/** "Migrate 9 tenants · 3 waves · stop after 1 failure" */
export function actionOf(found, { waves, maxFailures, hold, maxErrorRate }, verb) {
  const parts = [`${verb} ${plural(found.total, "tenant")}`];
  if (waves !== undefined) {
    parts.push(plural(waves.length, "wave"));
    if (hold) {
      parts.push("holds between waves");
    }
    if (maxErrorRate) {
      parts.push(`holds at ${maxErrorRate} more errors`);
    }
  }
  if (maxFailures !== undefined) {
    const isShare = typeof maxFailures !== "number";
    const most = isShare ? `more than ${maxFailures} failures` : plural(maxFailures + 1, "failure");
    parts.push(`stop after ${most}`);
  }
  return parts.join(" · ");
}

/** Return the summary of a dry run or a rehearsal as a sentence. */
export function summaryOf(found, plan) {
  const done = plan?.undoes ? "with nothing to undo" : "already at head";
  const others = `${count(found.upToDate)} ${done}, ${count(found.failed)} failed`;
  if (!plan?.isRehearsed) {
    return (
      `Pending, not tried: ${plural(found.pending, "tenant")} of ${count(found.total)}; ` +
      `${others}.`
    );
  }
  const untried = found.pending - plan.passedCount;
  const skipped = untried > 0 ? `, ${count(untried)} not rehearsed` : "";
  const at = shortTime(plan.createdAt);
  return `Rehearsed on ${at}: ${count(plan.passedCount)} passed${skipped}, ${others}.`;
}

function sizeInWords(size, total) {
  if (isName(size)) {
    return `the tenants where ${size}`;
  }
  if (typeof size === "number") {
    return plural(size, "tenant");
  }
  if (size === ALL) {
    return total === null ? "all tenants" : `all ${count(total)}`;
  }
  const share = Number(size.slice(0, -1));
  const about = total === null ? "" : ` (about ${count(Math.ceil((total * share) / 100))})`;
  return `${share}\u00a0% of the tenants${about}`;
}
