// The HTTP API, and the only place that calls it.

import * as session from "./session.js";

const LOGIN = "/api/admin/auth/login";
const LOGOUT = "/api/admin/auth/logout";
export const TENANTS = "/api/admin/tenants";
export const SCHEMA_STATUS = `${TENANTS}/schema-status`;
export const MIGRATE_ALL = `${TENANTS}/migrate-all`;
export const HISTORY = `${TENANTS}/migration-history`;
export const AUDIT_LOG = "/api/admin/audit-log";

const UNREACHABLE = "The service cannot be reached.";
const GARBLED = "The service gave an answer that is none of its own.";

/** An answer that is no success. Its message is for people. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 when there was no answer at all.
   * @param {string} message
   * @param {string|null} requestId What the log of the service knows the request by.
   */
  constructor(status, message, requestId = null) {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }
}

/** Return the data of a GET. Members of `query` that are null or empty are left out. */
export async function get(path, { query = {}, signal } = {}) {
  return (await ask("GET", withQuery(path, query), { signal })).data;
}

/** Send a body; return the data of the answer, or null when it has only a message. */
export async function send(method, path, body, { headers, signal } = {}) {
  return (await ask(method, path, { body, headers, signal })).data ?? null;
}

/** Exchange a password for a token. */
export async function logIn(email, password) {
  return (await ask("POST", LOGIN, { body: { email, password }, isOpen: true })).data;
}

/** End the session: here at once, and on the service if it can be reached. */
export function logOut() {
  ask("POST", LOGOUT, { body: {}, headers: bearer(), isOpen: true }).catch(() => {});
  session.end(session.SIGNED_OUT);
}

/**
 * Return the response of an endpoint whose answer is a stream.
 *
 * @throws {ApiError}
 */
export async function open(path, { headers, signal }) {
  const response = await fetched(path, { headers: { ...bearer(), ...headers }, signal });
  if (!response.ok) {
    await refuse(response);
  }
  return response;
}

/** Return the path with its query. */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

async function ask(method, path, { body, headers, signal, isOpen = false }) {
  const options = { method, headers: { ...(isOpen ? {} : bearer()), ...headers }, signal };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetched(path, options);
  if (!response.ok) {
    await refuse(response, isOpen);
  }
  return envelope(response);
}

function bearer() {
  const now = session.current();
  return now === null ? {} : { Authorization: `Bearer ${now.token}` };
}

async function fetched(path, options) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    // A view that is left takes its requests with it; that is no failure to tell of.
    throw error.name === "AbortError" ? error : new ApiError(0, UNREACHABLE);
  }
}

async function envelope(response) {
  try {
    return await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(response.status, GARBLED);
  }
}

async function refuse(response, isOpen = false) {
  if (response.status === 401 && !isOpen) {
    session.end(session.EXPIRED);
  }
  const wait = response.headers.get("Retry-After");
  const { message } = await envelope(response);
  const told = wait === null ? message : `${message} Try again in ${wait} s.`;
  throw new ApiError(response.status, told, response.headers.get("X-Request-Id"));
}
