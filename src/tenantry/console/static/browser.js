// A paged list of tenants; the service searches and filters.

import { get, latestOf, TENANTS } from "./api.js";
import { el, fill } from "./dom.js";
import { field, input, select } from "./forms.js";
import { keepQuery } from "./router.js";
import { pager } from "./table.js";
import { failure, skeleton } from "./widgets.js";

const TYPING_PAUSE_MS = 250;
const ACTIVITY = [
  ["", "All"],
  ["true", "Active"],
  ["false", "Suspended"],
];

/**
 * A search, two filters and a page of tenants. Their state is kept in the address.
 *
 * @param {{query: URLSearchParams, signal: AbortSignal}} page Of the view.
 * @param {{pageSize: number, status: any, render: (tenants: any[]) => Node}} options The page
 *   size, the response of schema-status, and the function that renders the tenants.
 * @returns {{element: HTMLElement, filter: (chosen: Object<string, string>) => Promise<void>}}
 */
export function tenantBrowser({ query, signal }, { pageSize, status, render }) {
  const filters = {
    search: query.get("search") ?? "",
    isActive: query.get("isActive") ?? "",
    revision: query.get("revision") ?? "",
    page: query.get("page") ?? "",
  };
  const controls = {
    search: input("search", {
      type: "search",
      value: filters.search,
      placeholder: "Name, id or database",
    }),
    isActive: select("isActive", ACTIVITY, filters.isActive),
    revision: select("revision", revisionsOf(status, filters.revision), filters.revision),
  };
  const results = el("div", { class: "results" }, skeleton(10));
  const next = latestOf(signal);

  async function load() {
    const ours = next();
    results.setAttribute("aria-busy", "true");
    try {
      const found = await get(TENANTS, { query: { ...filters, pageSize }, signal: ours });
      fill(results, pager(found, turn, "tenants"), render(found.items));
    } catch (error) {
      if (ours.aborted) {
        return;
      }
      fill(results, failure(error, load));
    }
    results.removeAttribute("aria-busy");
  }

  function ask(changed) {
    Object.assign(filters, { page: "" }, changed);
    keepQuery(filters);
    return load();
  }

  async function turn(page) {
    await ask({ page: String(page) });
  }

  /** @type {number|undefined} */
  let typing;
  controls.search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({ search: controls.search.value }), TYPING_PAUSE_MS);
  });
  for (const name of ["isActive", "revision"]) {
    controls[name].addEventListener("change", () => ask({ [name]: controls[name].value }));
  }
  load();

  const toolbar = el(
    "search",
    { class: "toolbar" },
    field("Search", controls.search),
    field("State", controls.isActive),
    field("Revision", controls.revision),
  );
  return {
    element: el("div", { class: "stack" }, toolbar, results),
    filter(chosen) {
      for (const [name, value] of Object.entries(chosen)) {
        controls[name].value = value;
      }
      return ask(chosen);
    },
  };
}

function revisionsOf(status, chosen) {
  const known = status.revisions.map((one) => one.revision).filter((one) => one !== null);
  // Suspended tenants may be at revisions without active tenants.
  const shown = chosen === "" || known.includes(chosen) ? known : [...known, chosen];
  const named = shown.map((one) => [one, one === status.head ? `${one} (head)` : one]);
  return [["", "Any"], ...named];
}
