// The failures of a run by cause: the causes on the left, the tenants of the chosen one right.

import { el, fill } from "./dom.js";
import { count, plural } from "./format.js";
import { field, input } from "./forms.js";
import { icon } from "./icons.js";
import { remedyOf } from "./remedies.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { button, copyText, gauge, linkButton, section, tenantLink } from "./widgets.js";

const ROWS_ON_A_PAGE = 20;
const NOT_ATTEMPTED = /^not attempted: /;

const COLUMNS = [
  {
    title: "Tenant",
    kind: "name",
    by: "customerName",
    cell: (one) => tenantLink(one.customerId, one.customerName),
  },
  {
    title: "Error",
    kind: "wide",
    by: "errorMessage",
    cell: (one) => el("span", { class: "raw code" }, one.errorMessage),
  },
];

/** Return the element, and the function that updates it: `draw(run, causes, failures)`. */
export function causeBench() {
  const list = el("ul", { class: "causes", "aria-label": "Causes" });
  const title = el("h3", { class: "code raw" });
  const actions = el("div", { class: "actions" });
  const search = input("tenant", { type: "search", placeholder: "Name, database or error" });
  const rows = el("div", { class: "stack" });
  const hint = el("p", { class: "hint" });
  const group = el(
    "div",
    { class: "panel stack cause-group" },
    title,
    hint,
    actions,
    field("Search in this group", search),
    rows,
  );
  const element = section("Failures by cause", {}, el("div", { class: "bench" }, list, group));
  element.hidden = true;
  /** @type {{run: any, causes: any[], failures: any[]}} */
  let now = { run: null, causes: [], failures: [] };
  let chosen = "";

  function draw(run, causes, failures) {
    now = { run, causes, failures };
    element.hidden = causes.length === 0;
    if (!causes.some((one) => one.cause === chosen)) {
      chosen = causes[0]?.cause ?? "";
    }
    drawCauses();
    drawGroup();
  }

  function drawCauses() {
    const largest = Math.max(...now.causes.map((one) => one.count));
    fill(
      list,
      now.causes.map((one) => {
        const state = NOT_ATTEMPTED.test(one.cause) ? "skipped" : "failed";
        const choose = () => {
          chosen = one.cause;
          search.value = "";
          drawCauses();
          drawGroup();
        };
        return el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              class: `cause is-${state}`,
              "aria-pressed": String(one.cause === chosen),
              "data-turn": one.cause,
              onclick: choose,
            },
            el(
              "span",
              { class: "cause-head" },
              badge(state, plural(one.count, "tenant")),
              progressOf(one),
            ),
            gauge(one.count, largest, state),
            el("span", { class: "code cause-text" }, one.cause),
          ),
        );
      }),
    );
  }

  /** "27 fixed, 9 left": by all retries since. */
  function progressOf({ count: all, left }) {
    const fixed = all - left;
    return (
      now.run.finishedAt !== null &&
      fixed > 0 &&
      el("span", { class: "hint" }, `${count(fixed)} fixed, ${count(left)} left`)
    );
  }

  function drawGroup() {
    const details = now.failures.filter((one) => one.cause === chosen);
    const query = { retryOf: now.run?.id ?? "", cause: chosen };
    const to = (more = {}) => `#/runs/plan?${new URLSearchParams({ ...query, ...more })}`;
    const { left = 0 } = now.causes.find((one) => one.cause === chosen) ?? {};
    const isOver = now.run?.finishedAt !== null && left > 0;
    fill(title, chosen);
    fill(hint, el("strong", {}, "What to do: "), remedyOf(chosen));
    fill(
      actions,
      isOver && linkButton(to(), "Retry this group", "primary"),
      isOver && linkButton(to({ rehearse: "true" }), "Rehearse this group"),
      button([icon("copy"), "Copy"], () => copy(details), { label: "Copy this group" }),
    );
    drawRows();
  }

  function drawRows() {
    const text = search.value.trim().toLowerCase();
    const details = now.failures.filter(
      (one) =>
        one.cause === chosen &&
        `${one.customerName} ${one.databaseName} ${one.errorMessage}`.toLowerCase().includes(text),
    );
    const options = { pageSize: ROWS_ON_A_PAGE };
    fill(rows, table("Tenants of this cause", COLUMNS, details, "No tenant matches.", options));
  }

  search.addEventListener("input", drawRows);
  return { element, draw };
}

function copy(details) {
  const lines = details.map(
    (one) => `${one.customerName}\t${one.databaseName}\t${one.errorMessage}`,
  );
  return copyText(lines.join("\n"), `Copied ${plural(lines.length, "tenant")}.`);
}
