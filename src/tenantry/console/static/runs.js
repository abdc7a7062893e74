// The history of runs: a timeline, and a table with the same data.

import { get, RUNS, latestOf } from "./api.js";
import { timeline } from "./charts.js";
import { el, fill } from "./dom.js";
import { count, duration, localTime, secondsBetween } from "./format.js";
import { keepQuery } from "./router.js";
import { badge } from "./states.js";
import { pager, table } from "./table.js";
import { heading, linkButton, section, time } from "./widgets.js";

// As many as a chart can show on a narrow screen.
const RUNS_ON_A_PAGE = 30;

const COLUMNS = [
  {
    title: "Run",
    kind: "name",
    cell: (run) => el("a", { href: `#/runs/${run.id}` }, run.label ?? localTime(run.startedAt)),
  },
  { title: "State", cell: (run) => badge(run.state) },
  { title: "Started", kind: "minor", cell: (run) => time(run.startedAt) },
  { title: "Tenants", kind: "number", cell: (run) => count(run.totalCount) },
  {
    title: "Failed",
    kind: "number",
    cell: (run) => failuresOf(run.failedCount - run.notAttemptedCount),
  },
  { title: "Not attempted", kind: "number minor", cell: (run) => count(run.notAttemptedCount) },
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

  const next = latestOf(signal);

  async function turn(page) {
    const wanted = { page, pageSize: RUNS_ON_A_PAGE };
    const found = await get(RUNS, { query: wanted, signal: next() });
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

function failuresOf(number) {
  return number === 0 ? "0" : el("strong", { class: "alarm" }, count(number));
}
