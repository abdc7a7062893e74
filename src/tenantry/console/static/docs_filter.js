// The filter of the operations on the page of the HTTP API.

import { all, byId, el, fill } from "./dom.js";
import { field, input } from "./forms.js";
import { membersOf } from "./openapi.js";

// In capitals, as the page shows them: "post" is also a word.
const METHOD = /^(?:GET|POST|PUT|PATCH|DELETE)$/;

/**
 * A field that hides the operations without all of its words, and the levels without operations.
 *
 * Ctrl-K focuses it, Escape clears it, the arrow down goes to the first operation, Enter opens it.
 *
 * @param {{method: string, path: string, operation: Object}[]} entries
 * @returns {{element: Node[], clear: () => void}}
 */
export function operationFilter(entries, description) {
  const control = input("filter", {
    type: "search",
    "aria-keyshortcuts": "Control+K Meta+K",
  });
  const counted = el("p", { class: "hint", role: "status" });
  /** @type {Map<string, string>} */
  const texts = new Map();

  function apply() {
    const words = control.value.split(/\s+/).filter(Boolean);
    for (const entry of entries) {
      const { operationId } = entry.operation;
      const text = texts.get(operationId) ?? textOf(entry, description);
      texts.set(operationId, text);
      byId(operationId).hidden = !words.every((word) =>
        METHOD.test(word) ? word === entry.method : text.includes(word.toLowerCase()),
      );
    }
    for (const level of all("section:has(> .operation)")) {
      level.hidden = level.querySelector(".operation:not([hidden])") === null;
    }
    fill(counted, words.length > 0 && `${shown().length} of ${entries.length} operations`);
  }

  function clear() {
    control.value = "";
    apply();
  }

  control.addEventListener("input", apply);
  control.addEventListener("keydown", (event) => {
    const [first] = shown();
    if (event.key === "Escape") {
      clear();
    } else if (first && (event.key === "ArrowDown" || event.key === "Enter")) {
      event.preventDefault();
      all("summary", first)[0].focus();
      if (event.key === "Enter") {
        location.hash = first.id;
      }
    }
  });
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      control.select();
      control.focus();
    }
  });
  const hint = "Words, parts of a path, members, or a method in capitals";
  return { element: [field("Filter (Ctrl-K)", control, hint), counted], clear };
}

function shown() {
  return all(".operation:not([hidden])");
}

/** Return what an operation is found by, in lower case. */
function textOf({ path, operation }, description) {
  const { operationId, summary, description: more, parameters = [], requestBody } = operation;
  const successes = Object.entries(operation.responses).filter(([status]) => status < "400");
  const bodies = [requestBody, ...successes.map(([, response]) => response)];
  const members = bodies
    .flatMap((body) => Object.values(body?.content ?? {}))
    .flatMap((media) => membersOf(media.schema, description));
  const names = [...parameters, ...members].map(({ name }) => name);
  return [path, operationId, summary, more, ...names].join(" ").toLowerCase();
}
