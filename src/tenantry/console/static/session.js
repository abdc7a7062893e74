// The session of the signed-in admin. The token is in sessionStorage: it is deleted with the tab,
// and sent only in a header. Other tabs of this origin get it over a BroadcastChannel.

const KEY = "tenantry.session";
const ASK_MS_MAX = 250;
const channel = new BroadcastChannel(KEY);

/** Dispatches "begin", "renew" and "end"; the `detail` of an end is the reason, to be shown. */
export const changes = new EventTarget();

export const EXPIRED = "Your session has ended. Sign in again to continue.";
export const SIGNED_OUT = "You are signed out.";
export const NOT_CONFIRMED =
  "You are signed out in this browser, but the service did not confirm that your session has " +
  "ended. To end it, sign in again and set your password.";

channel.addEventListener("message", ({ data }) => {
  const own = current();
  if (data.type === "ask" && own !== null) {
    channel.postMessage({ type: "have", session: own });
  } else if (data.type === "end" && own !== null && own.sessionId === data.sessionId) {
    finish(SIGNED_OUT);
  } else if (data.type === "renewed" && own !== null && own.sessionId === data.session.sessionId) {
    store(data.session, "renew");
  }
});

/**
 * Return `{token, endsAt, renewAt, sessionId, email}`, or null without a session. Times are those
 * of the browser's clock, in milliseconds.
 */
export function current() {
  const kept = sessionStorage.getItem(KEY);
  if (kept === null) {
    return null;
  }
  const session = JSON.parse(kept);
  return session.endsAt > Date.now() ? session : null;
}

/** Begin a session. */
export function begin(issued, email) {
  store(sessionOf(issued, email), "begin");
}

/** Replace the token of the session with a renewed one, in every tab. */
export function renew(issued) {
  const own = current();
  if (own !== null) {
    const session = sessionOf(issued, own.email);
    store(session, "renew");
    channel.postMessage({ type: "renewed", session });
  }
}

/** End the session in every tab, and delete the token. */
export function end(reason) {
  const own = current();
  if (own !== null && reason === SIGNED_OUT) {
    channel.postMessage({ type: "end", sessionId: own.sessionId });
  }
  finish(reason);
}

/** Take over the session of another tab. Return whether there was one. */
export function takeOver() {
  return new Promise((resolve) => {
    const give = (taken) => {
      channel.removeEventListener("message", hear);
      clearTimeout(timer);
      resolve(taken);
    };
    const hear = ({ data }) => {
      if (data.type === "have" && data.session.endsAt > Date.now()) {
        sessionStorage.setItem(KEY, JSON.stringify(data.session));
        give(true);
      }
    };
    const timer = setTimeout(() => give(false), ASK_MS_MAX);
    channel.addEventListener("message", hear);
    channel.postMessage({ type: "ask" });
  });
}

function finish(reason) {
  sessionStorage.removeItem(KEY);
  changes.dispatchEvent(new CustomEvent("end", { detail: reason }));
}

function store(session, event) {
  sessionStorage.setItem(KEY, JSON.stringify(session));
  changes.dispatchEvent(new CustomEvent(event));
}

/** The lifetime is the difference of the token's own times, whatever the browser's clock says. */
function sessionOf({ token }, email) {
  const { iat, exp, jti } = claimsOf(token);
  const lifetimeMs = (exp - iat) * 1000;
  return {
    token,
    email,
    sessionId: jti,
    endsAt: Date.now() + lifetimeMs,
    renewAt: Date.now() + lifetimeMs / 2,
  };
}

/** Return the claims of a JSON Web Token, unverified: for display, and for its times. */
export function claimsOf(token) {
  const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  return JSON.parse(new TextDecoder().decode(bytesOf(atob(payload))));
}

function bytesOf(binary) {
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}
