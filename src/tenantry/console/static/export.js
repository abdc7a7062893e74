// Export a run as a file: JSON as the API returns it, or CSV.

import { get, RUNS } from "./api.js";
import { el } from "./dom.js";
import { announce } from "./widgets.js";

const MEMBERS = [
  "customerId",
  "customerName",
  "databaseName",
  "status",
  "isAttempted",
  "startedAt",
  "finishedAt",
  "appliedMigrations",
  "cause",
  "errorMessage",
];
const TYPES = { csv: "text/csv", json: "application/json" };
const SAVED_MS = 10_000;

/** Save a run with the results of all its tenants. */
export async function exportRun(run, format) {
  const { items } = await get(`${RUNS}/${run.id}/tenants`);
  const text = format === "csv" ? toCsv(items) : toJson(run, items);
  const url = URL.createObjectURL(new Blob([text], { type: TYPES[format] }));
  el("a", { href: url, download: `run-${run.id}.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
  announce(`Exported run-${run.id.slice(0, 8)}….${format}`);
}

function toJson(run, tenants) {
  return `${JSON.stringify({ ...run, tenants }, null, 2)}\n`;
}

/** Return rows as CSV (RFC 4180). A text that a spreadsheet would execute gets a quote first. */
function toCsv(details) {
  const rows = details.map((one) => MEMBERS.map((member) => one[member]));
  return [MEMBERS, ...rows].map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}

function cellOf(value) {
  const text = value === null ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}
