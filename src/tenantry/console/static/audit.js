// The audit log: who changed what, newest first.

import { AUDIT_LOG, get } from "./api.js";
import { el, fill } from "./dom.js";
import { keepQuery } from "./router.js";
import { pager, table, time } from "./widgets.js";

const ROWS_ON_A_PAGE = 50;

const COLUMNS = [
  { title: "When", cell: (entry) => time(entry.at) },
  { title: "Action", cell: (entry) => entry.action },
  { title: "Actor", cell: (entry) => entry.actor },
  { title: "Target", kind: "minor code", cell: (entry) => entry.target },
  { title: "Request", kind: "minor code", cell: (entry) => entry.requestId },
];

/** Show the audit log. */
export async function view({ query, signal }) {
  const log = el("div", { class: "results" });

  async function turn(page) {
    const found = await get(AUDIT_LOG, { query: { page, pageSize: ROWS_ON_A_PAGE }, signal });
    const rows = table("Audit log", COLUMNS, found.items, "There are no entries yet.");
    fill(log, pager(found, show, "the audit log"), rows);
  }

  async function show(page) {
    keepQuery({ page: String(page) });
    await turn(page);
  }

  await turn(query.get("page") ?? 1);
  return [el("h1", {}, "Audit log"), log];
}
