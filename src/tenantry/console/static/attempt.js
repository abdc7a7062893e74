// Try a request of the documentation: the form, the equivalent command, and the response.

import { withQuery } from "./api.js";
import { ask } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { field, form, input } from "./forms.js";
import { schemesOf } from "./openapi.js";
import { claimsOf } from "./session.js";
import { button } from "./widgets.js";

const BODY_CHARS_SHOWN_MAX = 100_000;
const PREFIX_CHARS = 12;
const HEADERS = { mcpToken: "X-Mcp-Token", apiKey: "X-Api-Key", bearer: "Authorization" };
const PLACEHOLDERS = { mcpToken: "$MCP_TOKEN", apiKey: "$API_KEY", bearer: "Bearer $TOKEN" };

/**
 * A form that sends a request.
 *
 * @param {{method: string, path: string, operation: Object}} entry
 * @param {Object<string, HTMLInputElement>} credentials The controls for secrets, by the names of
 *   their schemes. Secrets are sent, but never shown.
 */
export function attempt({ method, path, operation }, credentials) {
  const parameters = (operation.parameters ?? []).map((one) => {
    const isOptional = !one.required;
    const control = input(one.name, {
      value: one.required ? one.example : "",
      placeholder: isOptional ? String(one.example ?? "") : null,
      required: one.required,
    });
    return { ...one, control };
  });
  const example = operation.requestBody?.content["application/json"].example;
  const body =
    example && el("textarea", { class: "code", rows: 8 }, JSON.stringify(example, null, 2));
  const answer = el("div", { class: "stack", "aria-live": "polite" });
  const fields = parameters.map((one) => field(`${one.name} (${one.in})`, one.control));
  return [
    form([...fields, body && field("Body", body)], { action: `Send ${method}` }, async () => {
      const request = { method, ...addressed(path, parameters), body: body?.value };
      const secrets = sentCredentials(operation, credentials);
      if (method === "GET" || (await isConfirmed(request, secrets))) {
        await exchange(request, secrets, answer);
      }
    }),
    answer,
  ];
}

/** Ask before a request that can change something, and say for whom it is sent. */
async function isConfirmed({ method, url }, secrets) {
  let isSent = false;
  const text = `This request can change data of the service at ${location.origin}.`;
  const buttons = { action: "Send", kind: "danger" };
  await ask(`Send ${method} ${url}?`, [text, callerOf(secrets)], buttons, () => {
    isSent = true;
  });
  return isSent;
}

/** Say with which credentials a request is sent, without the secrets. */
function callerOf(secrets) {
  const named = secrets.map(({ scheme, value }) => {
    if (scheme !== "bearer") {
      const kind = scheme === "apiKey" ? "API key" : "McpToken";
      return `the ${kind} ${value.slice(0, PREFIX_CHARS)}…`;
    }
    try {
      const { email, role } = claimsOf(value);
      return role === "Admin"
        ? `the admin ${email}, who may change every tenant`
        : `the user ${email}`;
    } catch {
      return "the bearer token";
    }
  });
  return named.length === 0
    ? "It is sent without credentials."
    : `It is sent for ${named.join(" and ")}.`;
}

function addressed(path, parameters) {
  const given = (place) =>
    parameters
      .filter((one) => one.in === place && one.control.value !== "")
      .map((one) => [one.name, one.control.value]);
  const filled = given("path").reduce(
    (so, [name, value]) => so.replace(`{${name}}`, encodeURIComponent(value)),
    path,
  );
  const url = withQuery(filled, Object.fromEntries(given("query")));
  return { url, headers: Object.fromEntries(given("header")) };
}

/** Return the schemes of the credentials to send, and the values of their headers. */
function sentCredentials(operation, credentials) {
  const typed = [...schemesOf(operation)].filter((scheme) => credentials[scheme].value !== "");
  const schemes = typed.includes("mcpToken") ? ["mcpToken"] : typed;
  return schemes.map((scheme) => {
    const secret = credentials[scheme].value;
    return { scheme, value: scheme === "bearer" ? `Bearer ${secret}` : secret };
  });
}

async function exchange({ method, url, headers, body }, secrets, answer) {
  const stop = new AbortController();
  const status = el("p", {}, "Waiting…");
  const shown = el("pre", { class: "code panel", tabindex: "0" });
  const stopping = button("Stop", () => stop.abort());
  fill(answer, command({ method, url, headers, body }, secrets), status, stopping, shown);
  const sent = { ...headers, ...(body ? { "Content-Type": "application/json" } : {}) };
  for (const { scheme, value } of secrets) {
    sent[HEADERS[scheme]] = value;
  }
  const began = performance.now();
  try {
    const response = await fetch(url, {
      method,
      headers: sent,
      body,
      signal: stop.signal,
      credentials: "omit",
      cache: "no-store",
    });
    const took = Math.round(performance.now() - began);
    fill(status, `${response.status} ${response.statusText}, ${took} ms`);
    if (response.body !== null) {
      await read(response, shown);
    }
  } catch (error) {
    fill(status, error.name === "AbortError" ? "Stopped." : "The service cannot be reached.");
  }
  stopping.remove();
}

/** Show a body while it arrives, and formatted when it is complete. */
async function read(response, shown) {
  let text = "";
  for await (const part of parts(response.body.pipeThrough(new TextDecoderStream()))) {
    text += part;
    fill(shown, text.slice(0, BODY_CHARS_SHOWN_MAX));
  }
  if (text.length > BODY_CHARS_SHOWN_MAX) {
    shown.append("\n…");
  } else if (response.headers.get("Content-Type")?.startsWith("application/json")) {
    fill(shown, JSON.stringify(JSON.parse(text), null, 2));
  }
}

async function* parts(stream) {
  const reader = stream.getReader();
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    yield chunk.value;
  }
}

/** The request as a shell command, with variables instead of secrets. */
function command({ method, url, headers, body }, secrets) {
  const named = [
    ...secrets.map(({ scheme }) => `"${HEADERS[scheme]}: ${PLACEHOLDERS[scheme]}"`),
    ...Object.entries(headers).map(([name, value]) => quoted(`${name}: ${value}`)),
    ...(body ? ["'Content-Type: application/json'"] : []),
  ];
  const words = [
    `curl -X ${method} ${quoted(location.origin + url)}`,
    ...named.map((header) => `-H ${header}`),
    ...(body ? [`-d ${quoted(body)}`] : []),
  ];
  return el("pre", { class: "code panel", tabindex: "0" }, words.join(" \\\n  "));
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
