// A section with a table that loads its data, and reloads after each change.

import { get, latestOf } from "./api.js";
import { el, fill } from "./dom.js";
import { pager, table } from "./table.js";
import { loadInto, section, skeleton } from "./widgets.js";

/**
 * @param {string} title
 * @param {{path: string, columns: Column[], empty: string, signal: AbortSignal,
 *   pageSize?: number, query?: () => Object<string, any>, loaded?: (found: any) => any,
 *   actions?: Node[], above?: Node[]}} options `pageSize` only if the list has pages; `loaded`
 *   receives each response.
 * @returns {{element: HTMLElement, reload: () => Promise<void>, first: () => Promise<void>}}
 */
export function listing(title, options) {
  const { path, columns, empty, signal, pageSize, actions = [], above = [] } = options;
  const body = el("div", { class: "results" }, skeleton());
  const next = latestOf(signal);
  let shown = 1;

  async function turn(page) {
    shown = page;
    const ours = next();
    await loadInto(body, ours, async () => {
      const query = { ...options.query?.(), ...(pageSize ? { page, pageSize } : {}) };
      const found = await get(path, { query, signal: ours });
      if (found.items.length === 0 && page > 1 && found.totalPages > 0) {
        await turn(found.totalPages);
        return;
      }
      const pages = pageSize ? pager(found, turn, title) : null;
      fill(body, found.totalPages > 1 && pages, table(title, columns, found.items, empty));
      options.loaded?.(found);
    });
  }

  turn(shown);
  return {
    element: section(title, { actions }, above, body),
    reload: () => turn(shown),
    first: () => turn(1),
  };
}
