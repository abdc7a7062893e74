// The table of every list: order, pages, chosen rows, and columns that a narrow screen leaves out.

import { el, fill } from "./dom.js";
import { count } from "./format.js";
import { button } from "./widgets.js";

const ROWS_ON_A_PAGE = 50;
const KEPT_MAX = 200; // tables whose order and page are kept, for Back
const texts = new Intl.Collator("en", { numeric: true });
/** @type {Map<string, {by: string|null, isDown: boolean, page: number, isWhole: boolean}>} */
const kept = new Map();

/** Return the order and the page of a table, which are kept while the console is open. */
export function viewOf(caption) {
  const key = `${location.hash.split("?")[0]} ${caption}`;
  const known = kept.get(key) ?? { by: null, isDown: false, page: 1, isWhole: false };
  kept.delete(key);
  kept.set(key, known);
  if (kept.size > KEPT_MAX) {
    kept.delete(kept.keys().next().value ?? key);
  }
  return known;
}

/**
 * A table of rows that are all here, with pages if there are many.
 *
 * @param {string} caption For screen readers; a heading is above.
 * @param {Column[]} columns Of the kinds "number", "minor" (hidden on narrow screens), "actions".
 *   `by` is what a row is sorted by: the name of a member, or a function.
 * @param {Object[]} rows
 * @param {string} empty The text for a table without rows.
 * @param {{pageSize?: number, choice?: any, sorted?: () => any}} [options] `choice` is of
 *   `chooser`; `sorted` is called when another order is chosen, instead of drawing it.
 */
export function table(caption, columns, rows, empty, options = {}) {
  const { pageSize = ROWS_ON_A_PAGE, choice = null } = options;
  if (rows.length === 0) {
    return el("p", { class: "empty" }, empty);
  }
  const place = el("div", { class: "results" });
  const view = viewOf(caption);
  const draw = () => {
    const totalPages = Math.ceil(rows.length / pageSize);
    const page = Math.max(1, Math.min(view.page, totalPages));
    const shown = inOrder(rows, columns, view).slice((page - 1) * pageSize, page * pageSize);
    const turn = (to) => {
      view.page = to;
      draw();
    };
    const at = { page, pageSize, totalCount: rows.length, totalPages };
    const sort = options.sorted ?? draw;
    fill(
      place,
      totalPages > 1 && pager(at, turn, caption),
      pageOfTable(caption, columns, shown, { sort, choice }),
    );
  };
  draw();
  return place;
}

/** The rows of one page; `sort` is called when another order is chosen, null if none can be. */
export function pageOfTable(caption, columns, rows, { sort, choice }) {
  const view = viewOf(caption);
  const all = choice === null ? columns : [choice.column(rows), ...columns];
  const scroller = el(
    "div",
    { class: "scroller", role: "group", tabindex: "0", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          all.map((column) => headOf(column, view, sort)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            all.map(({ cell, kind }) => el("td", { class: kind }, cell(row))),
          ),
        ),
      ),
    ),
  );
  scroller.classList.toggle("is-whole", view.isWhole);
  const hasMinor = columns.some(({ kind = "" }) => kind.includes("minor"));
  return [hasMinor && columnsButton(scroller, view), scroller];
}

/** On a narrow screen, a button that shows the columns that are left out there. */
function columnsButton(scroller, view) {
  const made = button("All columns", () => {
    view.isWhole = !view.isWhole;
    scroller.classList.toggle("is-whole", view.isWhole);
    made.setAttribute("aria-pressed", String(view.isWhole));
  });
  made.classList.add("quiet", "all-columns");
  made.setAttribute("aria-pressed", String(view.isWhole));
  return made;
}

function headOf({ title, kind, by, head }, view, sort) {
  if (head !== undefined || kind === "actions" || by === undefined || sort === null) {
    const isUnseen = kind === "actions";
    const shown = head ?? (isUnseen ? el("span", { class: "unseen" }, title) : title);
    return el("th", { scope: "col", class: kind }, shown);
  }
  const isBy = view.by === title;
  const press = () => {
    // Ascending, descending, and then as the service lists them.
    Object.assign(view, { page: 1, by: isBy && view.isDown ? null : title });
    view.isDown = isBy && !view.isDown;
    sort();
  };
  const order = isBy ? (view.isDown ? "descending" : "ascending") : null;
  const attributes = { type: "button", class: "sort", "data-turn": `sort ${title}` };
  return el(
    "th",
    { scope: "col", class: kind, "aria-sort": order },
    el("button", { ...attributes, onclick: press }, title),
  );
}

function inOrder(rows, columns, { by, isDown }) {
  const column = columns.find(({ title }) => title === by);
  if (column?.by === undefined) {
    return rows;
  }
  const keyOf = typeof column.by === "function" ? column.by : (row) => row[column.by];
  const sign = isDown ? -1 : 1;
  return rows.toSorted((one, other) => compare(keyOf(one), keyOf(other), sign));
}

/** What has no value is last, in either direction. */
function compare(one, other, sign) {
  const [isNone, isOtherNone] = [(one ?? null) === null, (other ?? null) === null];
  if (isNone || isOtherNone) {
    return Number(isNone) - Number(isOtherNone);
  }
  const isNumber = typeof one === "number";
  return sign * (isNumber ? one - other : texts.compare(String(one), String(other)));
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
    at.totalPages > 1 && [
      to(at.page - 1, "Previous", "previous"),
      to(at.page + 1, "Next", "next"),
      at.totalPages > 2 && to(at.totalPages, "Last", "last"),
    ],
  );
}
