// The client of the HTTP API; only this module sends requests.

import * as session from "./session.js";

const LOGIN = "/api/admin/auth/login";
const LOGOUT = "/api/admin/auth/logout";
const RENEW = "/api/admin/auth/renew";
export const TENANTS = "/api/admin/tenants";
export const SCHEMA_STATUS = `${TENANTS}/schema-status`;
export const MIGRATE_ALL = `${TENANTS}/migrate-all`;
export const HISTORY = `${TENANTS}/migration-history`;
export const PLANS = "/api/admin/plans";
export const RUNS = "/api/admin/migration-runs";
export const DELETED_TENANTS = "/api/admin/deleted-tenants";
export const BACKUPS = "/api/admin/backups";
export const ARCHIVES = "/api/admin/archives";
export const JOBS = "/api/admin/jobs";
export const TENANT_MAP = `${TENANTS}/map`;
export const ADMINS = "/api/admin/admins";
export const DRIFT = "/api/admin/drift";
export const HEALTH = "/api/admin/health";
export const AUDIT_LOG = "/api/admin/audit-log";

const UNAUTHORIZED = 401;
export const TOO_MANY_REQUESTS = 429;
const RETRY_S_MAX = 10; // a read is tried again once if it has to wait no longer
// The service's deadline is about 7 s; longer for a list of archives, and 120 s to make a tenant.
export const ANSWER_MS_MAX = 10_000;
const ARCHIVES_MS_MAX = 45_000;
const OTHER_MS_MAX = 150_000;
const UNREACHABLE = "The service cannot be reached.";
const NO_ANSWER = "No answer, so it is not known whether it was done: reload the page, and look.";
const GARBLED = "The response is invalid: it may come from a proxy.";

/** Dispatches "change" with the time of the last answer; with null when there is one again. */
export const connection = new EventTarget();
let answeredAt = Date.now();
let isSilent = false;

/** An error response. Its message is for people. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no response.
   * @param {string} message
   * @param {Headers} [headers]
   */
  constructor(status, message, headers = new Headers()) {
    super(message);
    this.status = status;
    /** The id of the request in the service's log. */
    this.requestId = headers.get("X-Request-Id");
    this.code = headers.get("X-Error-Code");
    /** When a retry can succeed, in seconds. */
    this.retryAfter = Number(headers.get("Retry-After"));
  }
}

/** Return the data of a GET. Null and empty members of `query` are omitted. */
export async function get(path, { query = {}, signal } = /** @type {Options} */ ({})) {
  const address = withQuery(path, query);
  const answerMs = path === ARCHIVES ? ARCHIVES_MS_MAX : ANSWER_MS_MAX;
  try {
    return (await request("GET", address, { signal, answerMs })).data;
  } catch (error) {
    if (error.status !== TOO_MANY_REQUESTS || error.retryAfter > RETRY_S_MAX) {
      throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, error.retryAfter * 1000));
    return (await request("GET", address, { signal, answerMs })).data;
  }
}

/** Send a body; return the data of the response, or null if it has only a message. */
export async function send(method, path, body, { headers, signal } = /** @type {Options} */ ({})) {
  return (await request(method, path, { body, headers, signal })).data ?? null;
}

/** Exchange a password for a token. */
export async function logIn(email, password) {
  return (await request("POST", LOGIN, { body: { email, password }, isOpen: true })).data;
}

/** Exchange the token for one that expires later. */
export async function renewSession() {
  session.renew((await request("POST", RENEW, { body: {} })).data);
}

/** End the session: immediately in the browser, and on the server if it can be reached. */
export function logOut() {
  const headers = bearer();
  session.end(session.SIGNED_OUT);
  // A tab that is closed at once does not cancel it.
  const ending = { body: {}, headers, isOpen: true, keepalive: true };
  request("POST", LOGOUT, ending).catch((error) => {
    if (error.status !== UNAUTHORIZED && session.current() === null) {
      session.end(session.NOT_CONFIRMED);
    }
  });
}

/**
 * Return the response of an endpoint that streams.
 *
 * @throws {ApiError}
 */
export async function open(path, /** @type {Options} */ { headers, signal, answerMs }) {
  const sent = { ...bearer(), ...headers };
  const response = await fetched(path, { headers: sent, signal, answerMs });
  if (!response.ok) {
    await throwError(response, false);
  }
  return response;
}

/** Return a function that cancels the previous call's requests: `const signal = next()`. */
export function latestOf(signal) {
  let previous = new AbortController();
  return () => {
    previous.abort();
    previous = new AbortController();
    return AbortSignal.any([signal, previous.signal]);
  };
}

/** Return the path with its query. */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

async function request(method, path, /** @type {Options} */ { body, headers, isOpen, ...options }) {
  const sent = { ...(isOpen ? {} : bearer()), ...headers };
  if (body !== undefined) {
    sent["Content-Type"] = "application/json";
  }
  const text = body && JSON.stringify(body);
  const response = await fetched(path, { ...options, method, headers: sent, body: text });
  if (!response.ok) {
    await throwError(response, isOpen);
  }
  return envelope(response);
}

function bearer() {
  const now = session.current();
  return now === null ? undefined : { Authorization: `Bearer ${now.token}` };
}

/** Return the response; its head must arrive within `answerMs`. */
async function fetched(
  path,
  /** @type {Options & RequestInit} */ { answerMs = OTHER_MS_MAX, signal, ...options },
) {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), answerMs);
  const either = AbortSignal.any([silence.signal, ...(signal ? [signal] : [])]);
  try {
    /** @type {RequestInit} */
    const sent = { cache: "no-store", credentials: "omit", ...options, signal: either };
    const response = await fetch(path, sent);
    note(true);
    return response;
  } catch (error) {
    // Leaving a view cancels its requests; that is not reported as an error.
    if (error.name === "AbortError" && !silence.signal.aborted) {
      throw error;
    }
    note(false);
    const isRead = (options.method ?? "GET") === "GET";
    throw new ApiError(0, isRead ? UNREACHABLE : NO_ANSWER);
  } finally {
    clearTimeout(timer);
  }
}

function note(isAnswer) {
  answeredAt = isAnswer ? Date.now() : answeredAt;
  if (isSilent === isAnswer) {
    isSilent = !isAnswer;
    connection.dispatchEvent(new CustomEvent("change", { detail: isSilent ? answeredAt : null }));
  }
}

async function envelope(response) {
  try {
    return await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(response.status, GARBLED);
  }
}

async function throwError(response, isOpen) {
  if (response.status === UNAUTHORIZED && !isOpen) {
    session.end(session.EXPIRED);
  }
  const wait = response.headers.get("Retry-After");
  const { message } = await envelope(response);
  const text = wait === null ? message : `${message} Try again in ${wait} s.`;
  throw new ApiError(response.status, text, response.headers);
}
