// The history of runs: a timeline, and a table with the same data.

import { get, HISTORY } from "./api.js";
import { timeline } from "./charts.js";
import { el, fill } from "./dom.js";
import { count, duration, secondsBetween } from "./format.js";
import { keepQuery } from "./router.js";
import { badge } from "./states.js";
import { heading, linkButton, pager, section, table, time } from "./widgets.js";

// As many as a chart can show on a narrow screen.
const RUNS_ON_A_PAGE = 30;

const COLUMNS = [
  { title: "Started", cell: (run) => el("a", { href: `#/runs/${run.id}` }, time(run.startedAt)) },
  { title: "State", cell: (run) => runState(run) },
  { title: "Tenants", kind: "number", cell: (run) => count(run.totalCount) },
  { title: "Failed", kind: "number", cell: (run) => count(run.failedCount) },
  {
    title: "Took",
    kind: "number minor",
    cell: (run) =>
      run.finishedAt === null ? "–" : duration(secondsBetween(run.startedAt, run.finishedAt)),
  },
  { title: "By", kind: "minor", cell: (run) => run.triggeredBy },
];

/** Show the runs. */
export async function view({ query, signal }) {
  const list = el("div", { class: "stack" });

  async function turn(page) {
    const wanted = { page, pageSize: RUNS_ON_A_PAGE, details: "none" };
    const found = await get(HISTORY, { query: wanted, signal });
    fill(
      list,
      found.items.length > 0 &&
        section("Timeline", {}, el("div", { class: "panel" }, timeline(found.items))),
      section(
        "History",
        {},
        pager(found, show, "the history"),
        table("History", COLUMNS, found.items, "There are no runs yet."),
      ),
    );
  }

  async function show(page) {
    keepQuery({ page: String(page) });
    await turn(page);
  }

  await turn(query.get("page") ?? 1);
  return [heading("Runs", linkButton("#/runs/plan", "Plan a run", "primary")), list];
}

/** A badge with the state of a run. */
export function runState(run) {
  if (run.finishedAt === null) {
    return badge("running");
  }
  return run.failedCount > 0 ? badge("failed", "with failures") : badge("success");
}
