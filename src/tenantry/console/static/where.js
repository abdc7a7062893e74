// The expression that selects tenants, such as `plan=free and region!=eu`: see docs/labels.md.

import { get, latestOf, TENANT_MAP, TENANTS } from "./api.js";
import { explain, field, input } from "./forms.js";

const BAD_WHERE = /^`where`/;
const CELLS_MAX = 100_000;
const SEARCHED_MAX = 100;

/**
 * A field for an expression. `set` is called with it when it was entered.
 *
 * @param {string} value
 * @param {(where: string) => any} set
 * @param {string} [hint] Of the field.
 * @returns {{element: HTMLElement, control: HTMLInputElement, refuses: (error: any) => boolean}}
 *   `refuses` shows the error of an expression below the field, and returns whether it is one.
 */
export function whereField(value, set, hint = "") {
  const placeholder = "plan=free and region!=eu";
  const control = input("where", { value, placeholder, spellcheck: "false", maxlength: 1000 });
  const element = field("Where", control, hint);
  let refused = "";
  control.addEventListener("change", () => {
    explain(control, null);
    refused = "";
    set(control.value.trim());
  });
  const refuses = (error) => {
    const isBad = BAD_WHERE.test(error.message);
    // A page that reads again shows it once, and leaves the focus.
    if (isBad && refused !== error.message) {
      refused = error.message;
      explain(control, refused);
    }
    return isBad;
  };
  return { element, control, refuses };
}

/** A field for the expression of a form that may be sent without one, which `chosenBy` reads. */
export function whereOf(hint) {
  return whereField("", () => undefined, hint).element;
}

/** The `where` of what is sent; no member if none was entered. */
export function chosenBy(text) {
  const where = String(text ?? "").trim();
  return where === "" ? {} : { where };
}

/**
 * The tenants of the map that only the service finds: by the search, and by the expression.
 *
 * `read` takes the filters, and throws for a wrong expression, which then selects none.
 */
export function serviceMatches(signal) {
  const next = latestOf(signal);
  let found = /** @type {Set<string>} */ (new Set());
  let selected = /** @type {Set<string>|null} */ (null);
  let where = ""; // of which `selected` is

  async function read(filters) {
    const ours = next();
    found = filters.search === "" ? new Set() : await search(filters.search, ours);
    if (filters.where !== where) {
      selected = new Set();
    }
    try {
      const chosen = filters.where === "" ? null : await select(filters.where, ours);
      selected = ours.aborted ? selected : chosen;
    } finally {
      where = ours.aborted ? where : filters.where;
    }
  }

  async function search(text, ours) {
    const query = { search: text, pageSize: SEARCHED_MAX };
    // Without an answer, the names that match are shown.
    const page = await get(TENANTS, { query, signal: ours }).catch(() => ({ items: [] }));
    return new Set(page.items.map((one) => one.id));
  }

  return {
    read,
    isFound: (id) => found.has(id),
    isSelected: (id) => selected === null || selected.has(id),
    isReading: (filters) => filters.where !== where,
  };
}

async function select(where, signal) {
  const ids = /** @type {Set<string>} */ (new Set());
  for (let after = /** @type {any} */ (""); after !== null && ids.size < CELLS_MAX; ) {
    const page = await get(TENANT_MAP, { query: { where, after }, signal });
    for (const one of page.items) {
      ids.add(one.id);
    }
    after = page.nextAfter;
  }
  return ids;
}
