// What every view is made of: headings, tables, pages, times, notices, buttons.

import { el, fill } from "./dom.js";
import { count, distance, localTime } from "./format.js";

/** A timestamp, exact to the second; the pointer shows how far away it is. */
export function time(timestamp, missing = "–") {
  if (timestamp === null) {
    return missing;
  }
  return el("time", { datetime: timestamp, title: distance(timestamp) }, localTime(timestamp));
}

/** A timestamp as a distance; the pointer shows the exact one. */
export function timeAgo(timestamp, missing = "never") {
  if (timestamp === null) {
    return missing;
  }
  return el("time", { datetime: timestamp, title: localTime(timestamp) }, distance(timestamp));
}

/**
 * A table in a region that scrolls sideways when it must.
 *
 * @param {string} caption Read out, not shown: a heading stands above.
 * @param {{title: string, cell: function(Object): *, kind?: string}[]} columns Of the kinds
 *   "number", "minor" (left out on narrow screens) and "actions".
 * @param {Object[]} rows
 * @param {string} empty What is said when there are none.
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

/**
 * "51–100 of 10,000", and the way to other pages.
 *
 * @param {{page: number, pageSize: number, totalCount: number, totalPages: number}} at
 * @param {function(number): void} turn Shows another page.
 * @param {string} what The list is a list of.
 */
export function pager(at, turn, what) {
  if (at.totalCount === 0) {
    return null;
  }
  const first = (at.page - 1) * at.pageSize + 1;
  const last = Math.min(at.page * at.pageSize, at.totalCount);
  const told = `${count(first)}–${count(last)} of ${count(at.totalCount)}`;
  const to = (page, text, id) => {
    const made = button(text, () => turn(page));
    made.dataset.turn = id;
    made.disabled = page < 1 || page > at.totalPages;
    return made;
  };
  return el(
    "nav",
    { class: "pager", "aria-label": `Pages of ${what}` },
    el("span", {}, told),
    at.totalPages > 1 && [to(at.page - 1, "Previous", "previous"), to(at.page + 1, "Next", "next")],
  );
}

/** A message in the flow of the page: of the kind "info", "good", "warning" or "bad". */
export function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : "status";
  return el("div", { class: `notice is-${kind}`, role }, children);
}

/** What is shown where something could not be read. */
export function failure(error, again) {
  const id = error.requestId ? ` (request ${error.requestId})` : "";
  return notice(
    "bad",
    el("p", {}, error.message, id),
    again && el("button", { type: "button", onclick: again }, "Try again"),
  );
}

/** Pairs of a name and a value. Values that are undefined are left out. */
export function facts(pairs) {
  const told = Object.entries(pairs).filter(([, value]) => value !== undefined);
  return el(
    "dl",
    { class: "facts" },
    told.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** The heading of a page, and what can be done there. */
export function heading(title, ...actions) {
  return el(
    "div",
    { class: "head" },
    el("h1", {}, title),
    el("div", { class: "actions" }, actions),
  );
}

/** A section of a page, with its heading and what can be done in it. */
export function section(title, { actions = [] } = {}, ...children) {
  const head = el(
    "div",
    { class: "head" },
    el("h2", {}, title),
    el("div", { class: "actions" }, actions),
  );
  return el("section", { "aria-label": title }, head, children);
}

/** A link that looks like a button. */
export function linkButton(href, text, kind = "") {
  return el("a", { class: `button ${kind}`, href }, text);
}

/** A button. What goes wrong when it is pressed is told at the edge of the page. */
export function button(text, press, { kind = "", label = null } = {}) {
  const onclick = async () => {
    try {
      await press();
    } catch (error) {
      complain(error);
    }
  };
  return el("button", { type: "button", class: kind, "aria-label": label, onclick }, text);
}

/** Tell of something that was asked for and not done, wherever the page stands. */
function complain(error) {
  const place = document.getElementById("complaints");
  if (error.name !== "AbortError") {
    fill(
      place,
      notice(
        "bad",
        error.message,
        button("Dismiss", () => fill(place)),
      ),
    );
  }
}

/** Say something to whoever listens instead of looking. */
export function announce(text) {
  fill(document.getElementById("announcements"), text);
}
