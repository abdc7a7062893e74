// The session of the signed-in admin. The token is in sessionStorage: it is deleted with the tab,
// and sent only in a header.

const KEY = "tenantry.session";

/** Dispatches "begin" and "end"; the `detail` of an end is the reason, to be shown. */
export const changes = new EventTarget();

export const EXPIRED = "Your session has ended. Sign in again to continue.";
export const SIGNED_OUT = "You are signed out.";

/** Return `{token, expiresAt, email}`, or null without a session. */
export function current() {
  const kept = sessionStorage.getItem(KEY);
  if (kept === null) {
    return null;
  }
  const session = JSON.parse(kept);
  return Date.parse(session.expiresAt) > Date.now() ? session : null;
}

/** Begin a session. */
export function begin({ token, expiresAt }, email) {
  sessionStorage.setItem(KEY, JSON.stringify({ token, expiresAt, email }));
  changes.dispatchEvent(new CustomEvent("begin"));
}

/** End the session, and delete the token. */
export function end(reason) {
  sessionStorage.removeItem(KEY);
  changes.dispatchEvent(new CustomEvent("end", { detail: reason }));
}
