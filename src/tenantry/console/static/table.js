// Tables, and the pages of long ones.

import { el } from "./dom.js";
import { count } from "./format.js";
import { button, others } from "./widgets.js";

/**
 * A table in a region that scrolls horizontally if necessary.
 *
 * @param {string} caption For screen readers; a heading is above.
 * @param {Column[]} columns Of the kinds "number", "minor" (hidden on narrow screens), "actions".
 * @param {Object[]} rows
 * @param {string} empty The text for a table without rows.
 */
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) {
    return el("p", { class: "empty" }, empty);
  }
  const heads = columns.map(({ title, kind }) =>
    el(
      "th",
      { scope: "col", class: kind },
      kind === "actions" ? el("span", { class: "unseen" }, title) : title,
    ),
  );
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      columns.map(({ cell, kind }) => el("td", { class: kind }, cell(row))),
    ),
  );
  return el(
    "div",
    { class: "scroller", role: "group", tabindex: "0", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, body),
    ),
  );
}

/** A table of the first rows, and the number of the others. */
export function firstRows(caption, columns, rows, empty, { max, noun }) {
  const shown = table(caption, columns, rows.slice(0, max), empty);
  return [shown, others(rows.length - max, noun)];
}

/**
 * "51–100 of 10,000", with buttons for other pages.
 *
 * @param {{page: number, pageSize: number, totalCount: number, totalPages: number}} at
 * @param {(page: number) => any} turn Shows another page.
 * @param {string} what The kind of items.
 */
export function pager(at, turn, what) {
  if (at.totalCount === 0) {
    return null;
  }
  const first = (at.page - 1) * at.pageSize + 1;
  const last = Math.min(at.page * at.pageSize, at.totalCount);
  const range = `${count(first)}–${count(last)} of ${count(at.totalCount)}`;
  const to = (page, text, id) => {
    const isPossible = page >= 1 && page <= at.totalPages;
    const made = button(text, () => isPossible && turn(page));
    made.dataset.turn = id;
    // A disabled button would lose the focus.
    made.setAttribute("aria-disabled", String(!isPossible));
    return made;
  };
  return el(
    "nav",
    { class: "pager", "aria-label": `Pages of ${what}` },
    el("span", {}, range),
    at.totalPages > 1 && [to(at.page - 1, "Previous", "previous"), to(at.page + 1, "Next", "next")],
  );
}
