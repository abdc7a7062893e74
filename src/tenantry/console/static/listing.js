// A section with a table that loads its data, and reloads after each change.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { failure, pager, section, table } from "./widgets.js";

/**
 * @param {string} title
 * @param {{path: string, columns: Column[], empty: string, signal: AbortSignal,
 *   pageSize?: number, actions?: Node[]}} options `pageSize` only if the list has pages.
 * @returns {{element: HTMLElement, reload: () => Promise<void>}}
 */
export function listing(title, { path, columns, empty, signal, pageSize, actions = [] }) {
  const body = el("div", { class: "results" });
  let shown = 1;

  async function turn(page) {
    shown = page;
    try {
      const query = pageSize ? { page, pageSize } : {};
      const found = await get(path, { query, signal });
      const pages = pageSize ? pager(found, turn, title) : null;
      fill(body, found.totalPages > 1 && pages, table(title, columns, found.items, empty));
    } catch (error) {
      if (!signal.aborted) {
        fill(
          body,
          failure(error, () => turn(page)),
        );
      }
    }
  }

  turn(shown);
  return { element: section(title, { actions }, body), reload: () => turn(shown) };
}
