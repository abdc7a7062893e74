// The connection to the service: the deadlines of requests, and whether it answers.

const UNREACHABLE = "The service cannot be reached.";
const NO_ANSWER = "No answer, so it is not known whether it was done: reload the page, and look.";

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

/** Return the response; its head must arrive within `answerMs`. */
export async function fetched(
  path,
  /** @type {Options & RequestInit} */ { answerMs, signal, ...options },
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
    throw lost(options.method);
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

/** Note that there was no answer, and return the error. */
export function lost(method = "GET") {
  note(false);
  return new ApiError(0, method === "GET" ? UNREACHABLE : NO_ANSWER);
}
