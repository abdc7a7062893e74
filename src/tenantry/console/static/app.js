// The frame: the session, the navigation, and the view of the current address.

import { logIn, logOut } from "./api.js";
import { all, byId, el, fill } from "./dom.js";
import { field, form, input } from "./forms.js";
import { resolve } from "./router.js";
import * as session from "./session.js";
import { failure, notice } from "./widgets.js";

// A view is loaded when it is first shown: `view({params, query, signal})` of its module.
/** @type {Route[]} */
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

const app = byId("app");
let leaving = new AbortController();
/** @type {number|undefined} */
let expiry;

session.changes.addEventListener("begin", () => frame());
session.changes.addEventListener("end", (event) =>
  signIn(/** @type {CustomEvent} */ (event).detail),
);
addEventListener("hashchange", () => session.current() !== null && show({ isFirst: false }));
start();

function start() {
  if (session.current() === null) {
    signIn(null);
  } else {
    frame();
  }
}

/** Show the sign-in form. The address is kept, so that its view is shown afterwards. */
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
  const loginForm = form(fields, { action: "Sign in" }, async (data) => {
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
      loginForm,
    ),
  );
  email.focus();
}

/** Build the header and the navigation, and show the first view. */
function frame() {
  const { email, expiresAt } = session.current();
  expiry = setTimeout(() => session.end(session.EXPIRED), Date.parse(expiresAt) - Date.now());
  const links = NAVIGATION.map(([text, href]) => el("a", { href, "data-section": text }, text));
  const out = el("button", { type: "button", onclick: logOut }, "Sign out");
  fill(
    app,
    el("a", { class: "skip", href: "#main", onclick: skip }, "Skip to content"),
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

/** Show the view of the address. The previous one stays until the new one is loaded. */
async function show({ isFirst }) {
  leave();
  const { signal } = leaving;
  const { load, params, query, section } = resolve(location.hash, ROUTES);
  const main = byId("main");
  for (const link of all("header nav a")) {
    link.toggleAttribute("aria-current", link.dataset.section === section);
  }
  main.setAttribute("aria-busy", "true");
  const content = await contentOf(load, { params, query, signal });
  if (signal.aborted) {
    return;
  }
  fill(main, content);
  main.removeAttribute("aria-busy");
  const [heading] = all("main h1");
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
    return [
      el("h1", {}, "This page could not be loaded"),
      failure(error, () => show({ isFirst: false })),
    ];
  }
}

/** Cancel the requests of the current view, and close its dialogs. */
function leave() {
  leaving.abort();
  leaving = new AbortController();
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.close();
  }
}

function skip(event) {
  event.preventDefault();
  byId("main").focus();
}
