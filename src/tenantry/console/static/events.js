// Server-sent events, read from a response body, because EventSource cannot send a bearer token.
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html

import { ANSWER_MS_MAX, open } from "./api.js";
import { heard } from "./connection.js";

// The service sends a line every 15 s.
const SILENCE_MS_MAX = 40_000;

/**
 * Yield the events of a stream, as `{id, type, data}`, until it ends or breaks.
 *
 * @param {string} path
 * @param {{lastId: string|null, signal: AbortSignal}} options `lastId` is the id of the last
 *   event received.
 * @throws {ApiError} The service rejects the request.
 * @throws {TypeError} The connection broke.
 */
export async function* events(path, { lastId, signal }) {
  const headers = { Accept: "text/event-stream" };
  if (lastId !== null) {
    headers["Last-Event-ID"] = lastId;
  }
  const response = await open(path, { headers, signal, answerMs: ANSWER_MS_MAX });
  let event = { id: null, type: "message", lines: [] };
  for await (const line of lines(response.body)) {
    if (line === "") {
      if (event.lines.length > 0) {
        yield { id: event.id, type: event.type, data: JSON.parse(event.lines.join("\n")) };
      }
      event = { id: event.id, type: "message", lines: [] };
    } else {
      take(event, line);
    }
  }
}

function take(event, line) {
  // A line that begins with a colon is a comment, which keeps the connection open.
  const [, name, value] = line.match(/^([^:]*):? ?(.*)$/s) ?? [];
  if (name === "event") {
    event.type = value;
  } else if (name === "data") {
    event.lines.push(value);
  } else if (name === "id") {
    event.id = value;
  }
}

async function* lines(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let read = await next(reader); !read.done; read = await next(reader)) {
      heard();
      const parts = (rest + read.value).split(/\r\n|\n|\r(?!$)/);
      rest = parts.pop() ?? "";
      yield* parts;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Read the next chunk, with a timeout for a silent connection. */
async function next(reader) {
  let silence;
  const silent = new Promise((_, reject) => {
    silence = setTimeout(() => reject(new TypeError("The stream is silent.")), SILENCE_MS_MAX);
  });
  try {
    return await Promise.race([reader.read(), silent]);
  } finally {
    clearTimeout(silence);
  }
}
