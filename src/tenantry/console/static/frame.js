// The frame around every view: the header with the navigation.

import { logOut } from "./api.js";
import { connection } from "./connection.js";
import { byId, el, fill } from "./dom.js";
import { asOf, localTime } from "./format.js";
import { brand, icon } from "./icons.js";
import * as session from "./session.js";
import { nextTheme, theme } from "./theme.js";
import { announce, button, notice } from "./widgets.js";

/** The header: the navigation, the search, the theme and the session. */
export function header(pages, search) {
  const { email } = session.current();
  const links = pages.map(([text, href, name]) =>
    el("a", { href, "data-section": text }, icon(name), el("span", {}, text)),
  );
  return el(
    "header",
    {},
    el("a", { class: "brand-name", href: "#/fleet" }, brand(), "Tenantry"),
    button([icon("search"), el("span", {}, "Search"), el("kbd", {}, "Ctrl K")], search, {
      kind: "find",
      label: "Search",
    }),
    el("nav", { "aria-label": "Main" }, links),
    el(
      "div",
      { class: "who" },
      el("span", { class: "cut", title: email }, email),
      el(
        "div",
        { class: "who-actions" },
        themeButton(),
        el("button", { type: "button", class: "quiet", onclick: logOut }, icon("out"), "Sign out"),
      ),
    ),
  );
}

function themeButton() {
  const made = el("button", { type: "button", class: "quiet", onclick: press }, icon("theme"));
  const label = () => made.setAttribute("aria-label", `Theme: ${theme()}. Switch`);
  function press() {
    const chosen = nextTheme();
    label();
    announce(`Theme: ${chosen}.`);
  }
  label();
  return made;
}

/** A place for a note while the service does not answer, until the signal is aborted. */
export function connectionNote(signal) {
  const place = el("div", { class: "connection", role: "status" });
  const draw = (/** @type {any} */ { detail }) => {
    const at = detail && `Last known ${localTime(asOf()).slice(-8)}: the service does not answer.`;
    document.documentElement.classList.toggle("is-last-known", detail !== null);
    fill(place, at && notice("warning", at));
  };
  connection.addEventListener("change", draw, { signal });
  return place;
}

/** Move the focus to the content. */
export function skip(event) {
  event.preventDefault();
  byId("main").focus();
}
