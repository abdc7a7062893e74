// Follow a run to its end, and reconnect after errors.

import { get, TOO_MANY_REQUESTS } from "./api.js";
import { ApiError, connection } from "./connection.js";
import { events } from "./events.js";

const RETRY_AFTER_MS = 2000;

/**
 * Call back for every event of a run. Return the run when it has ended.
 *
 * @param {string} path Of the events.
 * @param {string} runPath Of the run.
 * @param {any} run Its current state, without details.
 * @param {{signal: AbortSignal, onTenant: (detail: any) => void, onRun: (run: any) => void,
 *   onBreak: () => void, onBack: () => void}} callbacks `onTenant` may be
 *   called several times for one tenant.
 * @throws {ApiError} The service rejects the request.
 */
export async function watch(path, runPath, run, { signal, onTenant, onRun, onBreak, onBack }) {
  let now = run;
  let lastId = null;
  while (now.finishedAt === null) {
    let wait = RETRY_AFTER_MS;
    const cut = new AbortController();
    // A stream can stay open, and silent, after the network was away.
    const back = ({ detail = null }) => detail === null && cut.abort();
    const until = AbortSignal.any([signal, cut.signal]);
    connection.addEventListener("change", /** @type {any} */ (back), { signal: until });
    addEventListener("online", () => cut.abort(), { signal: until });
    try {
      for await (const event of events(path, { lastId, signal: until })) {
        lastId = event.id;
        onBack();
        if (event.type === "tenant") {
          onTenant(event.data);
        } else if (event.type === "run") {
          now = event.data;
          onRun(now);
        }
      }
    } catch (error) {
      throwUnlessTransient(error, signal);
      wait = Math.max(RETRY_AFTER_MS, (error.retryAfter || 0) * 1000);
    }
    cut.abort();
    if (now.finishedAt === null) {
      onBreak();
      await pause(wait, signal);
      now = (await currentState(runPath, signal)) ?? now;
      onRun(now);
    }
  }
  return now;
}

/**
 * Read the run; return null if the service does not answer. The stream then sends the missed
 * tenants, because it continues after the last received event.
 */
async function currentState(runPath, signal) {
  try {
    return await get(runPath, { signal });
  } catch (error) {
    throwUnlessTransient(error, signal);
    return null;
  }
}

/** Return what `act` returns, and try again as long as the service does not answer. */
export async function untilAnswered(act, { signal, onBreak }) {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      throwUnlessTransient(error, signal);
      onBreak();
      await pause(RETRY_AFTER_MS, signal);
    }
  }
}

/** Throw the error, unless a retry can succeed. */
function throwUnlessTransient(error, signal) {
  const { status = 0 } = error instanceof ApiError ? error : {};
  const isRefusal = status >= 400 && status < 500 && status !== TOO_MANY_REQUESTS;
  if (signal.aborted || isRefusal) {
    throw error;
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
