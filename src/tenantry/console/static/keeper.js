// Renew the session before it ends, while the console is used or a run is watched.

import { renewSession } from "./api.js";
import * as session from "./session.js";

const CHECK_EVERY_MS = 5_000;
const USED_MS_MAX = 30 * 60 * 1000;
const USES = ["pointerdown", "keydown", "wheel"];

let usedAt = Date.now();
let watchers = 0;

/** Keep the session for as long as the signal is not aborted. */
export function keepSession(signal) {
  usedAt = Date.now();
  for (const use of USES) {
    addEventListener(use, () => (usedAt = Date.now()), { signal, passive: true });
  }
  const timer = setInterval(() => check(signal), CHECK_EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  check(signal);
}

/** Count as used until the signal is aborted: a run is watched. */
export function keepWatching(signal) {
  watchers += 1;
  signal.addEventListener("abort", () => (watchers -= 1));
}

async function check(signal) {
  const now = session.current();
  if (now === null) {
    if (!signal.aborted) {
      session.end(session.EXPIRED);
    }
    return;
  }
  const isUsed = watchers > 0 || Date.now() - usedAt < USED_MS_MAX;
  if (isUsed && Date.now() > now.renewAt) {
    // Without an answer, the next check tries again.
    await renewSession().catch(() => {});
  }
}
