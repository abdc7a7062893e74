// The elements of views: headings, tables, pages, times, notices, buttons.

import { byId, el, fill } from "./dom.js";
import { count, distance, localTime } from "./format.js";

/** A timestamp, exact to the second; its tooltip has the distance from now. */
export function time(timestamp, missing = "–") {
  if (timestamp === null) {
    return missing;
  }
  return el("time", { datetime: timestamp, title: distance(timestamp) }, localTime(timestamp));
}

/** A timestamp as a distance; its tooltip has the exact time. */
export function timeAgo(timestamp, missing = "never") {
  if (timestamp === null) {
    return missing;
  }
  return el("time", { datetime: timestamp, title: localTime(timestamp) }, distance(timestamp));
}

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
    const made = button(text, () => turn(page));
    made.dataset.turn = id;
    made.disabled = page < 1 || page > at.totalPages;
    return made;
  };
  return el(
    "nav",
    { class: "pager", "aria-label": `Pages of ${what}` },
    el("span", {}, range),
    at.totalPages > 1 && [to(at.page - 1, "Previous", "previous"), to(at.page + 1, "Next", "next")],
  );
}

/** A message in the flow of the page: of the kind "info", "good", "warning" or "bad". */
export function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : "status";
  return el("div", { class: `notice is-${kind}`, role }, children);
}

/** A message for data that could not be loaded. */
export function failure(error, again) {
  const id = error.requestId ? ` (request ${error.requestId})` : "";
  return notice(
    "bad",
    el("p", {}, error.message, id),
    again && el("button", { type: "button", onclick: again }, "Try again"),
  );
}

/** Pairs of a name and a value. Undefined values are omitted. */
export function facts(pairs) {
  const defined = Object.entries(pairs).filter(([, value]) => value !== undefined);
  return el(
    "dl",
    { class: "facts" },
    defined.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** The heading of a page, with its actions. */
export function heading(title, ...actions) {
  return el(
    "div",
    { class: "head" },
    el("h1", {}, title),
    el("div", { class: "actions" }, actions),
  );
}

/** A section of a page, with its heading and its actions. */
export function section(title, { actions = /** @type {any[]} */ ([]) } = {}, ...children) {
  const head = el(
    "div",
    { class: "head" },
    el("h2", {}, title),
    el("div", { class: "actions" }, actions),
  );
  return el("section", { "aria-label": title }, head, children);
}

/** A link in the style of a button. */
export function linkButton(href, text, kind = "") {
  return el("a", { class: `button ${kind}`, href }, text);
}

/** A button. Errors of its action are shown at the edge of the page. */
export function button(text, press, { kind = "", label = /** @type {any} */ (null) } = {}) {
  const onclick = async () => {
    try {
      await press();
    } catch (error) {
      complain(error);
    }
  };
  return el("button", { type: "button", class: kind, "aria-label": label, onclick }, text);
}

/** Show the error of an action, visible at any scroll position. */
function complain(error) {
  const place = byId("complaints");
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

/** Announce a text to screen readers. */
export function announce(text) {
  fill(byId("announcements"), text);
}
