// Who is signed in. The token lives in sessionStorage: it ends with the tab, and is sent in a
// header and nowhere else.

const KEY = "tenantry.session";

/** Tells of "begin" and "end"; the `detail` of an end is the reason, for whoever was signed in. */
export const changes = new EventTarget();

export const EXPIRED = "Your session has ended. Sign in again to go on.";
export const SIGNED_OUT = "You are signed out.";

/** Return `{token, expiresAt, email}`, or null when nobody is signed in. */
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

/** End the session, and forget the token. */
export function end(reason) {
  sessionStorage.removeItem(KEY);
  changes.dispatchEvent(new CustomEvent("end", { detail: reason }));
}
