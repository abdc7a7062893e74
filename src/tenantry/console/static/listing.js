// A section with a table that is read on its own, and again after each change.

import { get } from "./api.js";
import { el, fill } from "./dom.js";
import { failure, pager, section, table } from "./widgets.js";

/**
 * @param {string} title
 * @param {{path: string, columns: Object[], empty: string, signal: AbortSignal,
 *   pageSize?: number, actions?: Node[]}} wanted `pageSize` only where the list has pages.
 * @returns {{element: HTMLElement, reload: function(): Promise<void>}}
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
