// The frame: the session, the navigation, and the view of the current address.

import { logIn } from "./api.js";
import { all, byId, el, fill } from "./dom.js";
import { isFleet, TENANT } from "./format.js";
import { field, form, input } from "./forms.js";
import { connectionNote, header, skip } from "./frame.js";
import { brand } from "./icons.js";
import { keepSession } from "./keeper.js";
import { go, part, resolve } from "./router.js";
import { runBar } from "./run_bar.js";
import { findPlace, keepPlaces, placeOfEntry } from "./scroll.js";
import * as session from "./session.js";
import { applyTheme } from "./theme.js";
import { complain, failure, notice, skeleton, speak } from "./widgets.js";

// A view is loaded when it is first shown: `view({params, query, signal})` of its module.
const TENANTS = `${TENANT}s`;
const NOT_OF_FLEET = ["/tenants/new", "/backups", "#/backups"];
const isShown = (path) => !isFleet || !NOT_OF_FLEET.includes(path);
/** @type {Route[]} */
const EVERY_ROUTE = [
  ["/fleet", () => import("./fleet.js"), "Fleet"],
  ["/runs", () => import("./runs.js"), "Runs"],
  ["/runs/plan", () => import("./plan.js"), "Runs"],
  ["/runs/:id", () => import("./run.js"), "Runs"],
  ["/tenants", () => import("./tenants.js"), TENANTS],
  ["/tenants/new", () => import("./new_tenant.js"), TENANTS],
  ["/tenants/:id", () => import("./tenant.js"), TENANTS],
  ["/backups", () => import("./backups.js"), "Backups"],
  ["/admins", () => import("./admins.js"), "Admins"],
  ["/audit", () => import("./audit.js"), "Audit log"],
  ["/health", () => import("./health.js"), "Health"],
];
const ROUTES = EVERY_ROUTE.filter(([path]) => isShown(path));
const NAVIGATION = [
  ["Fleet", "#/fleet", "fleet"],
  ["Runs", "#/runs", "runs"],
  [TENANTS, "#/tenants", "tenants"],
  ["Backups", "#/backups", "backups"],
  ["Admins", "#/admins", "admins"],
  ["Audit log", "#/audit", "audit"],
  ["Health", "#/health", "health"],
  ["API", "/docs", "docs"],
].filter(([, href]) => isShown(href));
const NAME = "Tenantry";
const SKELETON_AFTER_MS = 150;
const SKELETON_INSTEAD_AFTER_MS = 2000;

const app = byId("app");
let leaving = new AbortController();
let signedIn = new AbortController();

keepPlaces();
applyTheme();
session.changes.addEventListener("begin", () => frame());
session.changes.addEventListener("end", (event) =>
  signIn(/** @type {CustomEvent} */ (event).detail),
);
addEventListener("hashchange", () => session.current() !== null && show({ isFirst: false }));
addEventListener("keydown", openPalette);
if (session.current() !== null || (await session.takeOver())) {
  frame();
} else {
  signIn(null);
}

/** Show the sign-in form. The address is kept, so that its view is shown afterwards. */
function signIn(reason) {
  leave();
  signedIn.abort();
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
      el("h1", { class: "brand-name" }, brand(), NAME),
      reason !== null && notice("info", reason),
      loginForm,
    ),
  );
  email.focus();
}

/** Build the header and the navigation, and show the first view. */
function frame() {
  signedIn = new AbortController();
  fill(
    app,
    el("a", { class: "skip", href: "#main", onclick: skip }, "Skip to content"),
    header(NAVIGATION, showPalette),
    el(
      "div",
      { class: "page" },
      connectionNote(signedIn.signal),
      runBar(signedIn.signal),
      el("main", { id: "main", tabindex: "-1" }),
    ),
  );
  keepSession(signedIn.signal);
  show({ isFirst: true });
}

/** Show the view of the address. The previous one stays for a moment, while the new one loads. */
async function show({ isFirst }) {
  leave();
  const { signal } = leaving;
  const place = placeOfEntry();
  const { load, params, query, section } = resolve(location.hash, ROUTES);
  const main = byId("main");
  for (const link of all("header nav a")) {
    const isCurrent = link.dataset.section === section;
    link.toggleAttribute("aria-current", isCurrent);
    if (isCurrent) {
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }
  main.setAttribute("aria-busy", "true");
  const after = isFirst ? SKELETON_AFTER_MS : SKELETON_INSTEAD_AFTER_MS;
  const waiting = setTimeout(() => !signal.aborted && fill(main, skeleton(8)), after);
  const content = await contentOf(load, { params, query, signal });
  clearTimeout(waiting);
  if (signal.aborted) {
    return;
  }
  main.replaceChildren();
  fill(main, content);
  main.removeAttribute("aria-busy");
  const [heading] = all("main h1");
  document.title = `${heading.textContent} · ${NAME}`;
  heading.setAttribute("tabindex", "-1");
  if (!isFirst) {
    speak(heading.textContent);
  }
  findPlace(place, signal);
  if (document.querySelector("dialog[open]") === null) {
    heading.focus({ preventScroll: true });
  }
}

async function contentOf(load, page) {
  try {
    const { view } = await part(load);
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

/** Cancel the requests of the current view, and close its dialogs; a secret stays. */
function leave() {
  leaving.abort();
  leaving = new AbortController();
  for (const dialog of document.querySelectorAll("dialog")) {
    if (dialog.dataset.stays === undefined) {
      dialog.close();
    }
  }
}

function openPalette(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    showPalette().catch(complain);
  }
}

async function showPalette() {
  if (session.current() !== null && document.querySelector("dialog[open]") === null) {
    const { view } = await part(() => import("./palette.js"));
    view(NAVIGATION, { go, signal: signedIn.signal });
  }
}
