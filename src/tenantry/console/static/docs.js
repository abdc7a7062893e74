// The documentation of the HTTP API: every endpoint by level of access, with a form to try it.
// The address names the open operation.

import { operationFilter } from "./docs_filter.js";
import { contentsOf } from "./docs_operation.js";
import { byId, el, fill } from "./dom.js";
import { field, input } from "./forms.js";
import { brand } from "./icons.js";
import { byLevel } from "./openapi.js";
import * as session from "./session.js";
import { applyTheme } from "./theme.js";

const app = byId("app");
applyTheme();
start();

async function start() {
  try {
    const response = await fetch("/openapi.json");
    show(await response.json());
  } catch {
    fill(
      app,
      el("main", {}, el("h1", {}, "HTTP API"), el("p", {}, "The description could not be loaded.")),
    );
  }
}

function show(description) {
  const levels = byLevel(description);
  const secret = () => input("secret", { type: "password" });
  const secrets = { bearer: secret(), apiKey: secret(), mcpToken: secret() };
  secrets.bearer.value = session.current()?.token ?? "";
  const find = operationFilter([...levels.values()].flat(), description);
  const links = [...levels.keys()].map((level) => el("a", { href: `#${anchor(level)}` }, level));
  fill(
    app,
    el(
      "header",
      {},
      el("a", { class: "brand-name", href: "/console" }, brand(), "Tenantry"),
      el("nav", { "aria-label": "Levels of access" }, links),
    ),
    el(
      "main",
      {},
      el("h1", {}, "HTTP API"),
      el(
        "p",
        {},
        `Release ${description.info.version}. For programs: `,
        el("a", { href: "/openapi.json" }, "/openapi.json"),
      ),
      find.element,
      credentials(secrets),
      [...levels].map(([level, entries]) => levelSection(level, entries, description, secrets)),
    ),
  );
  history.scrollRestoration = "manual";
  openNamed(find);
  addEventListener("hashchange", () => openNamed(find));
}

function credentials({ bearer, apiKey, mcpToken }) {
  return el(
    "section",
    { class: "panel", "aria-label": "Credentials" },
    el("h2", {}, "Credentials"),
    el("p", { class: "hint" }, "For the requests below. They are not stored."),
    el(
      "form",
      { class: "toolbar", onsubmit: (event) => event.preventDefault() },
      field("Bearer token", bearer),
      field("X-Api-Key", apiKey),
      field("X-Mcp-Token", mcpToken),
    ),
  );
}

function levelSection(level, entries, description, secrets) {
  return el(
    "section",
    { id: anchor(level), "aria-label": level },
    el("h2", {}, level),
    entries.map((entry) => operationOf(entry, description, secrets)),
  );
}

function operationOf(entry, description, secrets) {
  const { method, path, operation } = entry;
  const body = el("div", { class: "stack" });
  const id = operation.operationId;
  // Not by the fragment, which would scroll. Back then opens the operation before.
  const name = () =>
    location.hash !== `#${id}` && !folded.open && history.pushState(null, "", `#${id}`);
  const folded = el(
    "details",
    { class: "panel operation", id },
    el(
      "summary",
      { onclick: name },
      el("span", { class: `method method-${method.toLowerCase()}` }, method),
      el("span", { class: "code" }, path),
      el("span", { class: "hint" }, operation.summary),
    ),
    body,
  );
  // Rendering all operations at once would be slow.
  const unfold = () => fill(body, contentsOf(entry, description, secrets));
  folded.addEventListener("toggle", () => folded.open && unfold(), { once: true });
  return folded;
}

/** Show the operation in the fragment of the address, open, at the top. */
function openNamed(find) {
  const named = document.getElementById(location.hash.slice(1));
  if (named?.closest("[hidden]")) {
    find.clear();
  }
  if (named instanceof HTMLDetailsElement) {
    if (!named.open) {
      // Its contents may make the page long enough to scroll.
      named.addEventListener("toggle", () => named.scrollIntoView(), { once: true });
    }
    named.open = true;
    named.querySelector("summary")?.focus({ preventScroll: true });
  }
  (named ?? app).scrollIntoView();
}

function anchor(level) {
  return `level-${level.toLowerCase().replaceAll(" ", "-")}`;
}
