// The client of the HTTP API; only this module sends requests.

import { ApiError, fetched, lost } from "./connection.js";
import { setClock } from "./format.js";
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
// The service's deadline is about 7 s; longer where databases or archives are read or written.
export const ANSWER_MS_MAX = 15_000;
const ARCHIVES_MS_MAX = 45_000;
const LONG_MS_MAX = 150_000;
const LONG = /tenants(\/[^/]+)?$|migrate-all|backups?$|archives|restore$|move-all|export/;
// As the service makes them: a proxy that compresses makes others, which match nothing.
const TAG = /^"\w{32}"$/;
const TAGS_MAX = 200;
const tags = new Map(); // of what was read last, by its path
const GARBLED = "The response is invalid: it may come from a proxy.";

/** Return the data of a GET. Null and empty members of `query` are omitted. */
export async function get(path, { query = {}, signal } = /** @type {Options} */ ({})) {
  const address = withQuery(path, query);
  const answerMs = path === ARCHIVES ? ARCHIVES_MS_MAX : ANSWER_MS_MAX;
  const sentMs = Date.now();
  try {
    const { data } = await request("GET", address, { signal, answerMs });
    if (path === HEALTH) {
      setClock(data.now, sentMs, Date.now());
    }
    return data;
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
  const response = await fetched(path, {
    headers: sent,
    signal,
    answerMs: answerMs ?? LONG_MS_MAX,
  });
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
  const [resource] = path.split("?");
  if (method !== "GET" && method !== "POST") {
    sent["If-Match"] ??= tags.get(resource) ?? "*";
  }
  const text = body && JSON.stringify(body);
  const answerMs = options.answerMs ?? (LONG.test(path) ? LONG_MS_MAX : ANSWER_MS_MAX);
  const silence = new AbortController();
  const signal = AbortSignal.any([silence.signal, ...(options.signal ? [options.signal] : [])]);
  const all = { ...options, answerMs, signal, method, headers: sent, body: text };
  const response = await fetched(path, all);
  const timer = setTimeout(() => silence.abort(), answerMs); // for the body
  try {
    if (!response.ok) {
      await throwError(response, isOpen);
    }
    remember(resource, response.headers.get("ETag") ?? "");
    return await envelope(response);
  } catch (error) {
    throw silence.signal.aborted ? lost(method) : error;
  } finally {
    clearTimeout(timer);
  }
}

function remember(path, tag) {
  tags.delete(path);
  if (TAG.test(tag)) {
    tags.set(path, tag);
    tags.size > TAGS_MAX && tags.delete(tags.keys().next().value);
  }
}

function bearer() {
  const now = session.current();
  return now === null ? undefined : { Authorization: `Bearer ${now.token}` };
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
