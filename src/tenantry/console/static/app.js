// The frame: who is signed in, the navigation, and the view that the address asks for.

import { logIn } from "./api.js";
import { el, fill } from "./dom.js";
import { field, form, input } from "./forms.js";
import { resolve } from "./router.js";
import * as session from "./session.js";
import { auditLog } from "./audit.js";
import { fleet } from "./fleet.js";
import { newTenant } from "./new_tenant.js";
import { plan } from "./plan.js";
import { run } from "./run.js";
import { runs } from "./runs.js";
import { tenant } from "./tenant.js";
import { tenants } from "./tenants.js";
import { failure, notice } from "./widgets.js";

const ROUTES = [
  ["/fleet", fleet, "Fleet"],
  ["/runs", runs, "Runs"],
  ["/runs/plan", plan, "Runs"],
  ["/runs/:id", run, "Runs"],
  ["/tenants", tenants, "Tenants"],
  ["/tenants/new", newTenant, "Tenants"],
  ["/tenants/:id", tenant, "Tenants"],
  ["/audit", auditLog, "Audit log"],
];
const NAVIGATION = [
  ["Fleet", "#/fleet"],
  ["Runs", "#/runs"],
  ["Tenants", "#/tenants"],
  ["Audit log", "#/audit"],
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
    { type: "button", onclick: () => session.end(session.SIGNED_OUT) },
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
  const { view, params, query, section } = resolve(location.hash, ROUTES);
  const main = document.getElementById("main");
  for (const link of document.querySelectorAll("header nav a")) {
    link.toggleAttribute("aria-current", link.dataset.section === section);
  }
  main.setAttribute("aria-busy", "true");
  const content = await shown(() => view({ params, query, signal }), signal);
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

async function shown(view, signal) {
  try {
    return await view();
  } catch (error) {
    if (signal.aborted) {
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
