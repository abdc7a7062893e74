// Waves and the failure budget, read and put into words.

import { count, plural } from "./format.js";

const ALL = "100%";
const SIZE = /^(\d+)\s*(%?)$/;

/** Return `3` of "3" and `"5%"` of "5 %". */
export function parseSize(text) {
  const found = SIZE.exec(text.trim());
  if (found === null) {
    throw new Error(
      `“${text.trim()}” is neither a number of tenants, like 3, nor a share of them, like 5%.`,
    );
  }
  return found[2] === "%" ? `${Number(found[1])}%` : Number(found[1]);
}

/** Return the sizes of waves: `[1, "10%", "100%"]` of "1, 10%, 100%". */
export function parseSizes(text) {
  return text.split(",").map(parseSize);
}

/**
 * Say what waves mean.
 *
 * @param {string} text As it was typed.
 * @param {number|null} [total] How many tenants there are, if that is known.
 */
export function wavesInWords(text, total = null) {
  if (text.trim() === "") {
    return "All tenants may start at once.";
  }
  try {
    const sizes = parseSizes(text);
    const told = sizes.map((size) => sizeInWords(size, total)).join(", then ");
    const waits = sizes.length > 1 ? " Each wave begins when the one before has ended." : "";
    const rest = sizes.at(-1) === ALL ? "" : " What is then left is not attempted.";
    return `First ${told}.${waits}${rest}`;
  } catch (error) {
    return error.message;
  }
}

/** Say what the failure budget means. */
export function budgetInWords(text) {
  if (text.trim() === "") {
    return "Failures stop nothing: every tenant is tried.";
  }
  try {
    const size = parseSize(text);
    if (size === 0) {
      return "The first failure stops the run: what has not started is not attempted.";
    }
    const told = sizeInWords(size, null);
    return `When more than ${told} have failed, what has not started is not attempted.`;
  } catch (error) {
    return error.message;
  }
}

function sizeInWords(size, total) {
  if (typeof size === "number") {
    return plural(size, "tenant");
  }
  if (size === ALL) {
    return total === null ? "all tenants" : `all ${count(total)}`;
  }
  const share = Number(size.slice(0, -1));
  const about = total === null ? "" : ` (about ${count(Math.ceil((total * share) / 100))})`;
  return `${share} % of the tenants${about}`;
}
