// The HTTP API as a page: every endpoint by its level of access, to be read and to be tried.

import { attempt } from "./attempt.js";
import { el, fill } from "./dom.js";
import { field, input } from "./forms.js";
import { byLevel, membersOf, typeOf } from "./openapi.js";
import * as session from "./session.js";
import { table } from "./widgets.js";

const MEMBERS = [
  { title: "Member", kind: "code", cell: (one) => one.name },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.isRequired ? "always" : "may be left out") },
];
const PARAMETERS = [
  { title: "Parameter", kind: "code", cell: (one) => one.name },
  { title: "In", cell: (one) => one.in },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.required ? "required" : "may be left out") },
];

const app = document.getElementById("app");
start();

async function start() {
  try {
    const response = await fetch("/openapi.json");
    show(await response.json());
  } catch {
    fill(app, el("main", {}, el("h1", {}, "HTTP API"), el("p", {}, "It cannot be read now.")));
  }
}

function show(description) {
  const levels = byLevel(description);
  const secrets = { bearer: secret(), apiKey: secret(), mcpToken: secret() };
  secrets.bearer.value = session.current()?.token ?? "";
  const links = [...levels.keys()].map((level) => el("a", { href: `#${anchor(level)}` }, level));
  fill(
    app,
    el(
      "header",
      {},
      el("a", { class: "name", href: "/console" }, "Tenantry"),
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

function secret() {
  return input("secret", { type: "password" });
}

function credentials({ bearer, apiKey, mcpToken }) {
  return el(
    "section",
    { class: "panel", "aria-label": "Credentials" },
    el("h2", {}, "Credentials"),
    el("p", { class: "hint" }, "For the requests that are tried below. They stay on this page."),
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
  // A page of everything would be long to make, and nobody reads it all.
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
  const answers = Object.entries(operation.responses);
  const refusals = answers
    .filter(([status]) => status >= "400")
    .map(([status, told]) => `${status} ${told.description}`);
  return [
    parameters.length > 0 && [
      el("h3", {}, "Parameters"),
      table("Parameters", PARAMETERS, parameters, ""),
    ],
    request && [el("h3", {}, "Body"), members("Body", request.schema, description)],
    el("h3", {}, "Answers"),
    answers.filter(([status]) => status < "400").map((one) => success(one, description)),
    el("p", { class: "hint" }, `Refusals: ${refusals.join(", ")}`),
    el("h3", {}, "Try it"),
    attempt(entry, secrets),
  ];
}

function success([status, { description: text, content = {} }], description) {
  const told = el("strong", {}, `${status} ${text}`);
  const [media] = Object.entries(content);
  if (media === undefined) {
    return el("p", {}, told, ", without a body");
  }
  const [type, { schema, example }] = media;
  const shown = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return [
    el("p", {}, told, `, ${type}`),
    members(`Members of the answer ${status}`, schema, description),
    example !== undefined && el("pre", { class: "code panel", tabindex: "0" }, shown),
  ];
}

function members(caption, schema, description) {
  const rows = membersOf(schema, description);
  return rows.length > 0 && table(caption, MEMBERS, rows, "");
}

/** Open the operation that the address names. */
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
