// The tenants, page by page: found and filtered by the service, never all of them here.

import { get, TENANTS } from "./api.js";
import { el, fill } from "./dom.js";
import { field, input, select } from "./forms.js";
import { keepQuery } from "./router.js";
import { failure, pager } from "./widgets.js";

const TYPING_PAUSE_MS = 250;
const ACTIVITY = [
  ["", "All"],
  ["true", "Active"],
  ["false", "Suspended"],
];

/**
 * A search, two filters and a page of tenants. What is asked for is kept in the address.
 *
 * @param {{query: URLSearchParams, signal: AbortSignal}} page Of the view.
 * @param {{pageSize: number, status: Object, render: function(Object[]): Node}} wanted How many
 *   tenants a page has, the answer of schema-status, and how the tenants are shown.
 * @returns {{element: HTMLElement, filter: function(Object): void}} `filter` sets filters from
 *   outside.
 */
export function tenantBrowser({ query, signal }, { pageSize, status, render }) {
  const asked = {
    search: query.get("search") ?? "",
    isActive: query.get("isActive") ?? "",
    revision: query.get("revision") ?? "",
    page: query.get("page") ?? "",
  };
  const controls = {
    search: input("search", { type: "search", value: asked.search, placeholder: "Part of a name" }),
    isActive: select("isActive", ACTIVITY, asked.isActive),
    revision: select("revision", revisionsOf(status, asked.revision), asked.revision),
  };
  const results = el("div", { class: "results" });
  let loading = new AbortController();

  async function load() {
    loading.abort();
    loading = new AbortController();
    const ours = AbortSignal.any([signal, loading.signal]);
    results.setAttribute("aria-busy", "true");
    try {
      const found = await get(TENANTS, { query: { ...asked, pageSize }, signal: ours });
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
    Object.assign(asked, { page: "" }, changed);
    keepQuery(asked);
    return load();
  }

  async function turn(page) {
    const turned = document.activeElement?.dataset.turn;
    await ask({ page: String(page) });
    // The button that was pressed is a new one now, and may be at its end.
    const buttons = [...results.querySelectorAll("[data-turn]:enabled")];
    (buttons.find((one) => one.dataset.turn === turned) ?? buttons[0])?.focus();
  }

  let typing = null;
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
    element: el("div", {}, toolbar, results),
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
  // Suspended tenants may stand where no active one does.
  const all = chosen === "" || known.includes(chosen) ? known : [...known, chosen];
  const named = all.map((one) => [one, one === status.head ? `${one} (head)` : one]);
  return [["", "Any"], ...named];
}
