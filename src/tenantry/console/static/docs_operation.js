// An operation on the page of the HTTP API, unfolded.

import { attempt } from "./attempt.js";
import { el } from "./dom.js";
import { meaningOf, membersOf, typeOf } from "./openapi.js";
import { table } from "./table.js";

const MEMBERS = [
  { title: "Member", kind: "code", cell: (one) => one.name },
  { title: "Meaning", kind: "wide", cell: (one) => marked(one.meaning) },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.isRequired ? "always" : "optional") },
];
const PARAMETERS = [
  { title: "Parameter", kind: "code", cell: (one) => one.name },
  { title: "Meaning", kind: "wide", cell: (one) => marked(one.description) },
  { title: "In", cell: (one) => one.in },
  { title: "Type", cell: (one) => one.type },
  { title: "Presence", cell: (one) => (one.required ? "required" : "optional") },
];

/** Return what an operation takes and returns, what it all means, and a form to try it. */
export function contentsOf(entry, description, secrets) {
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
    paragraphs(operation.description),
    parameters.length > 0 && [
      el("h3", {}, "Parameters"),
      table("Parameters", PARAMETERS, parameters, ""),
    ],
    request && [
      el("h3", {}, "Body"),
      paragraphs(meaningOf(request.schema, description)),
      members("Body", request.schema, description),
    ],
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
    paragraphs(meaningOf(schema, description)),
    members(`Members of the response ${status}`, schema, description),
    example !== undefined && el("pre", { class: "code panel", tabindex: "0" }, shown),
  ];
}

function members(caption, schema, description) {
  const rows = membersOf(schema, description);
  return rows.length > 0 && table(caption, MEMBERS, rows, "");
}

/** Return the paragraphs of a text of the description. */
function paragraphs(text) {
  return text.split("\n\n").map((one) => el("p", {}, marked(one)));
}

/** Return a text with what is between backticks as code. */
function marked(text) {
  return text.split("`").map((one, at) => (at % 2 ? el("code", {}, one) : one));
}
