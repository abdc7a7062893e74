// The elements of views: headings, tables, pages, times, notices, buttons.

import { byId, el, fill } from "./dom.js";
import { distance, localTime, plural, shortened } from "./format.js";
import { icon } from "./icons.js";
import { PartMissing } from "./router.js";

const TOAST_MS = 5000;

/** A timestamp as a distance from now; its tooltip has the exact time. */
export function time(timestamp, missing = "never") {
  if (timestamp === null) {
    return missing;
  }
  return el("time", { datetime: timestamp, title: localTime(timestamp) }, distance(timestamp));
}

/** A message in the flow of the page: of the kind "info", "warning" or "bad". */
export function notice(kind, ...children) {
  const role = kind === "bad" ? "alert" : "status";
  return el("div", { class: `notice is-${kind}`, role }, children);
}

/** A message for data that could not be loaded. */
export function failure(error, again) {
  const id = error.requestId ? ` (request ${error.requestId})` : "";
  const isPart = error instanceof PartMissing;
  const press = isPart ? () => location.reload() : again;
  return notice(
    "bad",
    el("p", {}, error.message, id),
    press &&
      el("button", { type: "button", onclick: press }, isPart ? "Reload the page" : "Try again"),
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

/** A remark below or above what it is about. */
export function hint(...children) {
  return el("p", { class: "hint" }, children);
}

/** "And 3 more tenants." below a list that shows only its first entries; null if it shows all. */
export function others(number, noun, after = "") {
  return number > 0 ? hint(`And ${plural(number, noun)}.`, after) : null;
}

/** In place of what is in a tenant's database. */
export function unreadable() {
  return el("p", { class: "empty" }, "The database of the tenant cannot be read.");
}

/** A link to the page of a tenant. */
export function tenantLink(id, name) {
  return el("a", { href: `#/tenants/${id}` }, name);
}

/** Load and show data; an error is shown in its place, with a button that tries again. */
export async function loadInto(place, signal, load) {
  try {
    await load();
  } catch (error) {
    if (!signal.aborted) {
      const again = () => loadInto(place, signal, load);
      fill(place, failure(error, again));
    }
  }
}

/** Buttons and links in a row. */
export function actionRow(...children) {
  return el("div", { class: "actions" }, children);
}

/** The heading of a page, with its actions. */
export function heading(title, ...actions) {
  return el("div", { class: "head" }, el("h1", {}, title), actionRow(actions));
}

/**
 * A section of a page, with its heading and its actions.
 *
 * @param {string} title
 * @param {{actions?: any}} options
 * @param {...any} children
 */
export function section(title, { actions = [] }, ...children) {
  const head = el("div", { class: "head" }, el("h2", {}, title), actionRow(actions));
  return el("section", { "aria-label": title }, head, children);
}

/** A link in the style of a button. */
export function linkButton(href, text, kind = "") {
  return el("a", { class: `button ${kind}`, href }, text);
}

/**
 * A button. It cannot be pressed again until its action has ended. Errors of the action are shown
 * at the edge of the page.
 */
export function button(text, press, { kind = "", label = /** @type {any} */ (null) } = {}) {
  const onclick = async () => {
    if (made.hasAttribute("aria-busy")) {
      return;
    }
    made.setAttribute("aria-busy", "true");
    try {
      await press();
    } catch (error) {
      complain(error);
    }
    made.removeAttribute("aria-busy");
  };
  const made = el("button", { type: "button", class: kind, "aria-label": label, onclick }, text);
  return made;
}

/** Copy a text, and announce that. Return whether the browser allows it. */
export async function copyText(text, done = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS, browsers allow the clipboard only with the keyboard.
    announce("The browser does not allow that. Select the text, and press Ctrl+C.", null);
    return false;
  }
  announce(done);
  return true;
}

/** The beginning of an id, with a button that copies all of it. */
export function shortId(id, what = "id") {
  const options = { kind: "quiet square", label: `Copy the ${what} ${id}` };
  return el(
    "span",
    { class: "id" },
    el("span", { class: "code", title: id }, shortened(id)),
    button(icon("copy"), () => copyText(id), options),
  );
}

/** A bar that shows a share; without a label it only repeats a number beside it. */
export function gauge(value, max, state, label = /** @type {any} */ (null)) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  const described = { role: "meter", "aria-label": label, "aria-valuemin": 0 };
  const values = { "aria-valuemax": max, "aria-valuenow": value };
  return el(
    "span",
    {
      class: `gauge is-${state}`,
      ...(label ? { ...described, ...values } : { "aria-hidden": "true" }),
    },
    el("span", { style: { width: `${100 * share}%` } }),
  );
}

/** A placeholder for content that is being loaded. */
export function skeleton(lines = 4) {
  return el(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    Array.from({ length: lines }, () => el("span")),
  );
}

/** A text on one line, cut off at the end if necessary; its tooltip has all of it. */
export function cut(text) {
  return el("span", { class: "cut", title: text }, text);
}

/** Show for a moment what has happened, after a sign; screen readers read the text. */
export function announce(text, sign = icon("check")) {
  const shown = el("p", { class: "toast" }, sign, text);
  const place = byId("announcements");
  fill(place, shown);
  setTimeout(() => shown.remove(), TOAST_MS);
}

/** Read a text to screen readers, without showing it. */
export function speak(text) {
  fill(byId("spoken"), text);
}

/** Show the error of an action, visible at any scroll position. */
export function complain(error) {
  const place = byId("complaints");
  if (error.name !== "AbortError") {
    const dismiss = button("Dismiss", () => fill(place));
    fill(place, notice("bad", el("p", {}, error.message), dismiss));
  }
}
