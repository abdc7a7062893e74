// The frame: who is signed in, the navigation, and the view that the address asks for.

import { logIn, logOut } from "./api.js";
import { el, fill } from "./dom.js";
import { field, form, input } from "./forms.js";
import { resolve } from "./router.js";
import * as session from "./session.js";
import { failure, notice } from "./widgets.js";

// A view is read when it is first asked for: `view({params, query, signal})` of its module.
const ROUTES = [
  ["/fleet", () => import("./fleet.js"), "Fleet"],
  ["/runs", () => import("./runs.js"), "Runs"],
  ["/runs/plan", () => import("./plan.js"), "Runs"],
  ["/runs/:id", () => import("./run.js"), "Runs"],
  ["/tenants", () => import("./tenants.js"), "Tenants"],
  ["/tenants/new", () => import("./new_tenant.js"), "Tenants"],
  ["/tenants/:id", () => import("./tenant.js"), "Tenants"],
  ["/audit", () => import("./audit.js"), "Audit log"],
];
const NAVIGATION = [
  ["Fleet", "#/fleet"],
  ["Runs", "#/runs"],
  ["Tenants", "#/tenants"],
  ["Audit log", "#/audit"],
  ["API", "/docs"],
];
const NAME = "Tenantry";

const app = document.getElementById("app");
let leaving = new AbortController();
let expiry = null;

session.changes.addEventListener("begin", () => frame());
session.changes.addEventListener("end", (event) => signIn(event.detail));
addEventListener("hashchange", () => session.current() !== null && show({ isFirst: false }));
start();

function start() {
  if (session.current() === null) {
    signIn(null);
  } else {
    frame();
  }
}

/** Ask who is there. What was on the screen goes; the address stays, to come back to it. */
function signIn(reason) {
  leave();
  clearTimeout(expiry);
  document.title = `Sign in · ${NAME}`;
  const email = input("email", { type: "email", required: true, autocomplete: "username" });
  const password = input("password", {
    type: "password",
    required: true,
    autocomplete: "current-password",
  });
  const fields = [field("E-mail address", email), field("Password", password)];
  const asked = form(fields, { action: "Sign in" }, async (data) => {
    const issued = await logIn(data.get("email"), data.get("password"));
    session.begin(issued, data.get("email"));
  });
  fill(
    app,
    el(
      "main",
      { class: "sign-in" },
      el("h1", {}, NAME),
      reason !== null && notice("info", reason),
      asked,
    ),
  );
  email.focus();
}

/** Build what stands around every view, and show the first one. */
function frame() {
  const { email, expiresAt } = session.current();
  expiry = setTimeout(() => session.end(session.EXPIRED), Date.parse(expiresAt) - Date.now());
  const links = NAVIGATION.map(([text, href]) => el("a", { href, "data-section": text }, text));
  const out = el(
    "button",
    { type: "button", onclick: logOut },
    "Sign out",
  );
  fill(
    app,
    el("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the content"),
    el(
      "header",
      {},
      el("a", { class: "name", href: "#/fleet" }, NAME),
      el("nav", { "aria-label": "Main" }, links),
      el("div", { class: "who" }, el("span", { title: email }, email), out),
    ),
    el("main", { id: "main", tabindex: "-1" }),
  );
  show({ isFirst: true });
}

/** Show the view of the address. Until it is there, what was shown before stays. */
async function show({ isFirst }) {
  leave();
  const { signal } = leaving;
  const { load, params, query, section } = resolve(location.hash, ROUTES);
  const main = document.getElementById("main");
  for (const link of document.querySelectorAll("header nav a")) {
    link.toggleAttribute("aria-current", link.dataset.section === section);
  }
  main.setAttribute("aria-busy", "true");
  const content = await contentOf(load, { params, query, signal });
  if (signal.aborted) {
    return;
  }
  fill(main, content);
  main.removeAttribute("aria-busy");
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} · ${NAME}`;
  if (!isFirst) {
    heading.setAttribute("tabindex", "-1");
    heading.focus();
    scrollTo(0, 0);
  }
}

async function contentOf(load, page) {
  try {
    const { view } = await load();
    return await view(page);
  } catch (error) {
    if (page.signal.aborted) {
      return null;
    }
    return [el("h1", {}, "Not shown"), failure(error, () => show({ isFirst: false }))];
  }
}

/** End what the view on the screen is waiting for. */
function leave() {
  leaving.abort();
  leaving = new AbortController();
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.close();
  }
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}
