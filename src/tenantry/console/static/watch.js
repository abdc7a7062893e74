// Follow a run to its end, over broken connections.

import { ApiError, get } from "./api.js";
import { events } from "./events.js";

const AGAIN_AFTER_MS = 2000;

/**
 * Tell of everything that happens in a run. Return it as it is when it has ended.
 *
 * @param {string} path Of the run.
 * @param {Object} run As it is now, without details.
 * @param {{signal: AbortSignal, onTenant: function(Object): void, onRun: function(Object): void,
 *   onBreak: function(): void, onBack: function(): void}} told `onTenant` may be told of one
 *   tenant several times.
 * @throws {ApiError} The service refuses to tell.
 */
export async function watch(path, run, { signal, onTenant, onRun, onBreak, onBack }) {
  let now = run;
  let lastId = null;
  while (now.finishedAt === null) {
    try {
      for await (const event of events(`${path}/events`, { lastId, signal })) {
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
      letThrough(error, signal);
    }
    if (now.finishedAt === null) {
      onBreak();
      await pause(AGAIN_AFTER_MS, signal);
      now = (await stateAgain(path, signal)) ?? now;
      onRun(now);
    }
  }
  return now;
}

/**
 * Read how far the run is; return null while nobody answers. The tenants that were missed come
 * with the stream, which goes on after the last event that was seen.
 */
async function stateAgain(path, signal) {
  try {
    return await get(path, { query: { details: "none" }, signal });
  } catch (error) {
    letThrough(error, signal);
    return null;
  }
}

/** Throw an error again that will not go away by waiting. */
function letThrough(error, signal) {
  const isRefusal = error instanceof ApiError && error.status >= 400 && error.status < 500;
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
