// A list of the API: one table with its pages, its order and its filters, reloaded on demand.

import { get, latestOf } from "./api.js";
import { el, fill } from "./dom.js";
import { keepQuery } from "./router.js";
import { pageOfTable, pager, table, viewOf } from "./table.js";
import { loadInto, section, skeleton } from "./widgets.js";

const PAGE_SIZE_MAX = 100; // of the API
// A longer list is in the order of the service: only all of its rows can be sorted.
const SORTED_MAX = 1000;
const REFUSED = "Nothing is listed: see the field above.";

/**
 * @param {string} title
 * @param {{path: string, columns: Column[], empty: string, signal: AbortSignal,
 *   pageSize?: number, sortedMax?: number, refuses?: (error: any) => boolean,
 *   query?: () => Object<string, any>, loaded?: (found: any) => any,
 *   filters?: Object<string, string>, choice?: any, actions?: any[], above?: any[]}} options
 *   `pageSize` only if the list has pages; `loaded` receives each response, and returns whether
 *   the list must be drawn again. `refuses` shows an error of the filters elsewhere, and returns
 *   whether it has. `filters` are kept in the address, with the page, and sent.
 * @returns {{element: HTMLElement, results: HTMLElement, reload: () => Promise<void>,
 *   first: () => Promise<void>, every: (most: number) => Promise<any[]>}} `results` is the
 *   list without its heading; `every` reads the first rows that match.
 */
export function listing(title, options) {
  const { path, columns, empty, signal, pageSize, choice = null, filters = null } = options;
  const { sortedMax = SORTED_MAX } = options;
  const body = el("div", { class: "results" }, skeleton());
  const next = latestOf(signal);
  const view = viewOf(title);
  let shown = Number(filters?.page) || view.page;

  const wanted = () => {
    const { page, ...given } = filters ?? {};
    return { ...given, ...options.query?.() };
  };

  async function every(most, until = signal) {
    const query = { ...wanted(), pageSize: PAGE_SIZE_MAX };
    const found = [];
    for (let page = 1, pages = 1; page <= pages && found.length < most; page += 1) {
      const read = await get(path, { query: { ...query, page }, signal: until });
      found.push(...read.items);
      pages = read.totalPages;
    }
    return found.slice(0, most);
  }

  async function turn(page) {
    shown = page;
    const ours = next();
    body.setAttribute("aria-busy", "true");
    await loadInto(body, ours, () => read(page, ours).catch(refuse));
    if (!ours.aborted) {
      body.removeAttribute("aria-busy");
    }
  }

  function refuse(error) {
    if (!options.refuses?.(error)) {
      throw error;
    }
    fill(body, el("p", { class: "empty" }, REFUSED));
  }

  async function read(page, ours) {
    const query = { ...wanted(), ...(pageSize ? { page, pageSize } : {}) };
    const found = await get(path, { query, signal: ours });
    if (found.items.length === 0 && page > 1 && found.totalPages > 0) {
      await turn(found.totalPages);
      return;
    }
    const isSortable = !pageSize || found.totalCount <= sortedMax;
    let draw;
    if (!pageSize || (view.by !== null && isSortable)) {
      const isWhole = !pageSize || found.totalPages <= 1;
      const rows = isWhole ? found.items : await every(sortedMax, ours);
      const sorted = pageSize ? () => turn(1) : undefined;
      draw = () => fill(body, table(title, columns, rows, empty, { pageSize, choice, sorted }));
    } else {
      view.page = page;
      const pages = () => found.totalPages > 1 && pager(found, show, title);
      draw = () => fill(body, pages(), rowsOf(found, isSortable));
    }
    draw();
    if (await options.loaded?.(found)) {
      draw();
    }
  }

  function rowsOf(found, isSortable) {
    const sort = isSortable ? () => turn(1) : null;
    return found.items.length === 0
      ? table(title, columns, [], empty)
      : pageOfTable(title, columns, found.items, { sort, choice });
  }

  function show(page) {
    if (filters !== null) {
      filters.page = page > 1 ? String(page) : "";
      keepQuery(filters);
    }
    return turn(page);
  }

  turn(shown);
  return {
    element: section(title, { actions: options.actions }, options.above, body),
    results: body,
    reload: () => turn(shown),
    first: () => show(1),
    every,
  };
}
