// The documentation of the HTTP API: every endpoint by level of access, with a form to try it.

import { attempt } from "./attempt.js";
import { byId, el, fill } from "./dom.js";
import { field, input } from "./forms.js";
import { brand } from "./icons.js";
import { byLevel, membersOf, typeOf } from "./openapi.js";
import * as session from "./session.js";
import { table } from "./table.js";
import { applyTheme } from "./theme.js";

const MEMBERS = [
  { title: "Member", kind: "code", cell: (one) => one.name },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.isRequired ? "always" : "optional") },
];
const PARAMETERS = [
  { title: "Parameter", kind: "code", cell: (one) => one.name },
  { title: "In", cell: (one) => one.in },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.required ? "required" : "optional") },
];

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
      credentials(secrets),
      [...levels].map(([level, entries]) => levelSection(level, entries, description, secrets)),
    ),
  );
  openNamed();
  addEventListener("hashchange", openNamed);
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
  const folded = el(
    "details",
    { class: "panel operation", id: operation.operationId },
    el(
      "summary",
      {},
      el("span", { class: `method method-${method.toLowerCase()}` }, method),
      el("span", { class: "code" }, path),
      el("span", { class: "hint" }, operation.summary),
    ),
    body,
  );
  // Rendering all operations at once would be slow.
  const unfold = () => fill(body, contents(entry, description, secrets));
  folded.addEventListener("toggle", () => folded.open && unfold(), { once: true });
  return folded;
}

function contents(entry, description, secrets) {
  const { operation } = entry;
  const parameters = (operation.parameters ?? []).map((one) => ({
    ...one,
    type: typeOf(one.schema, description),
  }));
  const request = operation.requestBody?.content["application/json"];
  const responses = Object.entries(operation.responses);
  const errors = responses
    .filter(([status]) => status >= "400")
    .map(([status, response]) => `${status} ${response.description}`);
  return [
    parameters.length > 0 && [
      el("h3", {}, "Parameters"),
      table("Parameters", PARAMETERS, parameters, ""),
    ],
    request && [el("h3", {}, "Body"), members("Body", request.schema, description)],
    el("h3", {}, "Responses"),
    responses.filter(([status]) => status < "400").map((one) => success(one, description)),
    el("p", { class: "hint" }, `Errors: ${errors.join(", ")}`),
    el("h3", {}, "Try it"),
    attempt(entry, secrets),
  ];
}

function success([status, { description: text, content = {} }], description) {
  const title = el("strong", {}, `${status} ${text}`);
  const [media] = Object.entries(content);
  if (media === undefined) {
    return el("p", {}, title, ", without a body");
  }
  const [type, { schema, example }] = media;
  const shown = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return [
    el("p", {}, title, `, ${type}`),
    members(`Members of the response ${status}`, schema, description),
    example !== undefined && el("pre", { class: "code panel", tabindex: "0" }, shown),
  ];
}

function members(caption, schema, description) {
  const rows = membersOf(schema, description);
  return rows.length > 0 && table(caption, MEMBERS, rows, "");
}

/** Open the operation in the fragment of the address. */
function openNamed() {
  const named = document.getElementById(location.hash.slice(1));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
  }
  named?.scrollIntoView();
}

function anchor(level) {
  return `level-${level.toLowerCase().replaceAll(" ", "-")}`;
}
