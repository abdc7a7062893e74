// The connection to the service: the deadlines of requests, and whether it answers.

const UNREACHABLE = "The service cannot be reached.";
const NO_ANSWER = "No answer, so it is not known whether it was done: reload the page, and look.";

const SILENT_MS = 5000;
const PROMPT_MS_MAX = 15_000; // of requests whose deadline is longer, a late answer says nothing
const OF_A_PROXY = new Set([502, 504]);

/**
 * Dispatches "change" with the time of the last answer, 5 s after it, if a request was not
 * answered; and with null at the first answer.
 */
export const connection = new EventTarget();
let answeredAt = Date.now();
let isSilent = false;

/** Return the time of the last answer if there is none now; else null. */
export function lastKnown() {
  return isSilent ? answeredAt : null;
}

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

/** Return the response; its head must arrive within `answerMs`. */
export async function fetched(
  path,
  /** @type {Options & RequestInit} */ { answerMs, signal, ...options },
) {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), answerMs);
  const sentAt = Date.now();
  const isPrompt = Number(answerMs) <= PROMPT_MS_MAX;
  const late = isPrompt && setTimeout(() => doubt(sentAt), SILENT_MS);
  const either = AbortSignal.any([silence.signal, ...(signal ? [signal] : [])]);
  try {
    /** @type {RequestInit} */
    const sent = { cache: "no-store", credentials: "omit", ...options, signal: either };
    const response = await fetch(path, sent);
    OF_A_PROXY.has(response.status) ? doubt(Date.now()) : note(true);
    return response;
  } catch (error) {
    // Leaving a view cancels its requests; that is not reported as an error.
    if (error.name === "AbortError" && !silence.signal.aborted) {
      throw error;
    }
    throw lost(options.method);
  } finally {
    clearTimeout(timer);
    clearTimeout(Number(late));
  }
}

/** Note that a part of an answer has arrived. */
export function heard() {
  note(true);
}

function note(isAnswer) {
  answeredAt = isAnswer ? Date.now() : answeredAt;
  if (isSilent === isAnswer) {
    isSilent = !isAnswer;
    connection.dispatchEvent(new CustomEvent("change", { detail: isSilent ? answeredAt : null }));
  }
}

/** Note silence, unless there is an answer after `since` within `SILENT_MS` of the last one. */
function doubt(since) {
  const check = () => answeredAt <= since && note(false);
  setTimeout(check, Math.max(0, answeredAt + SILENT_MS - Date.now()));
}

/** Note that there was no answer, and return the error. */
export function lost(method = "GET") {
  doubt(Date.now());
  return new ApiError(0, method === "GET" ? UNREACHABLE : NO_ANSWER);
}
