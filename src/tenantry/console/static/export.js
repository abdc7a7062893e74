// Save files: a run as JSON or CSV, and the data of a tenant.

import { get, open, RUNS, withQuery } from "./api.js";
import { el } from "./dom.js";
import { announce } from "./widgets.js";

const TIMES = ["startedAt", "finishedAt"];
const RESULT = ["status", "isAttempted", ...TIMES, "appliedMigrations", "cause", "errorMessage"];
const MEMBERS = ["customerId", "customerName", "databaseName", ...RESULT];
const TYPES = { csv: "text/csv", json: "application/json" };
const BROKEN = "The connection broke before the end of the export. Nothing was saved.";
const SAVED_MS = 10_000;

/** Save a run with the results of all its tenants. */
export async function exportRun(run, format) {
  const { items } = await get(`${RUNS}/${run.id}/tenants`);
  const toJson = () => `${JSON.stringify({ ...run, tenants: items }, null, 2)}\n`;
  const text = format === "csv" ? toCsv(items) : toJson();
  save(new Blob([text], { type: TYPES[format] }), `run-${run.id}.${format}`);
  announce(`Exported run-${run.id.slice(0, 8)}….${format}`);
}

/** Save the data of the tenant at `path`; browsers keep a large download on the disk. */
export async function exportTenant(tenant, path, format, signal) {
  const response = await open(withQuery(`${path}/export`, { format }), { headers: {}, signal });
  const broken = () => Promise.reject(new Error(BROKEN));
  save(await response.blob().catch(broken), `export-${tenant.name}.zip`);
  announce(`Exported ${tenant.name}.`);
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
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
