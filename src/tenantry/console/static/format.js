// Numbers, times and durations for display.

import { lastKnown } from "./connection.js";

/** Whether this is the console of a fleet of databases, which have no users, keys and copies. */
export const isFleet = document.documentElement.dataset.fleet !== undefined;
export const TENANT = isFleet ? "Database" : "Tenant";

const CLOCK = "tenantry.clock"; // of the tab: a reload begins with what is known
let offsetMs = Number(sessionStorage.getItem(CLOCK) ?? 0);

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const SKEW = 5; // between clocks

const numbers = new Intl.NumberFormat("en");
const times = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});

/** "12,345" */
export function count(number) {
  return numbers.format(number);
}

/** "1 tenant", "12,345 tenants" */
export function plural(number, noun, many = `${noun}s`) {
  const named = number === 1 ? noun : many;
  return `${count(number)} ${isFleet ? named.replace("tenant", "database") : named}`;
}

/** "850 B", "4.2 MB", "1.3 GB" of a number of bytes. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, number)) / 3));
  const amount = number / 1000 ** power;
  return `${power === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[power]}`;
}

/** "4 %", "< 1 %", "0 %" */
export function percent(part, whole) {
  if (part === 0 || whole === 0) {
    return "0 %";
  }
  const share = Math.round((100 * part) / whole);
  if (share === 0) {
    return "< 1 %";
  }
  return share === 100 && part < whole ? "> 99 %" : `${share} %`;
}

/** "850 ms", "4.2 s", "3 min 12 s", "2 h 5 min" of a number of seconds. */
export function duration(seconds) {
  if (seconds < 1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 10) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  if (whole < MINUTE) {
    return `${whole} s`;
  }
  if (whole < HOUR) {
    return `${Math.floor(whole / MINUTE)} min ${whole % MINUTE} s`;
  }
  return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / MINUTE)} min`;
}

/** The seconds between two timestamps; until now, or the last answer, when the second is null. */
export function secondsBetween(startedAt, finishedAt) {
  const end = finishedAt === null ? asOf() : Date.parse(finishedAt);
  return Math.max(0, (end - Date.parse(startedAt)) / 1000);
}

/** "2026-07-18 14:03:22", in the time zone of the browser. */
export function localTime(timestamp) {
  const at = new Date(timestamp);
  const two = (number) => String(number).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  const time = [two(at.getHours()), two(at.getMinutes()), two(at.getSeconds())].join(":");
  return `${day} ${time}`;
}

/** "01890a5d-ac96…", the beginning of an id. */
export function shortened(id) {
  return `${id.slice(0, 13)}…`;
}

/** "18 Jul, 14:03", in the time zone of the browser. */
export function shortTime(timestamp) {
  return times.format(new Date(timestamp));
}

/** "just now", "12 min ago", "in 30 days" */
export function distance(timestamp) {
  const seconds = (Date.parse(timestamp) - now()) / 1000;
  const size = Math.abs(seconds);
  if (size < MINUTE) {
    return seconds > SKEW ? "within a minute" : "just now";
  }
  const [unit, name] = size < HOUR ? [MINUTE, "min"] : size < DAY ? [HOUR, "h"] : [DAY, "day"];
  const amount = Math.round(size / unit);
  const text = name === "day" ? plural(amount, "day") : `${amount} ${name}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/**
 * Take the time of the service's clock.
 *
 * @param {string} timestamp Which the service sent between two times of the browser's clock.
 * @param {number} sentMs
 * @param {number} receivedMs
 */
export function setClock(timestamp, sentMs, receivedMs) {
  offsetMs = Date.parse(timestamp) - (sentMs + receivedMs) / 2;
  sessionStorage.setItem(CLOCK, String(offsetMs));
}

/** Return the time of the service, in milliseconds since 1970. */
export function now() {
  return Date.now() + offsetMs;
}

/** Return the time, as `now`, of what is shown: while there is no answer, that of the last one. */
export function asOf() {
  return (lastKnown() ?? Date.now()) + offsetMs;
}
