// The controls of the map of the fleet: its filters, and the size of its cells.

import { el, fill, onPause } from "./dom.js";
import { field, input, select } from "./forms.js";
import { whereField } from "./where.js";
import { button } from "./widgets.js";

/** Return whether a tenant of the map matches the filters. */
export function isMatch(tenant, state, filters, service) {
  const text = filters.search.trim().toLowerCase();
  return (
    service.isSelected(tenant.id) &&
    (filters.state === "" || filters.state === state) &&
    (filters.server === "" || filters.server === tenant.server) &&
    (filters.revision === "" || filters.revision === tenant.revision) &&
    (filters.cause === "" || filters.cause === tenant.cause) &&
    (text === "" ||
      tenant.name.toLowerCase().includes(text) ||
      tenant.id === text ||
      service.isFound(tenant.id))
  );
}

/** The controls of the filters: `offer` sets their choices, `sync` their values. */
export function toolbar(filters, set) {
  const search = input("search", {
    type: "search",
    value: filters.search,
    placeholder: "Name, id, database or owner",
  });
  const lists = {
    server: select("server", []),
    revision: select("revision", []),
    cause: select("cause", []),
  };
  const labels = { server: "Server", revision: "Revision", cause: "Cause" };
  const places = Object.fromEntries(
    Object.entries(lists).map(([name, list]) => [name, field(labels[name], list)]),
  );
  const where = whereField(filters.where, (text) => set({ where: text }));
  onPause(search, (text) => set({ search: text }));
  for (const [name, list] of Object.entries(lists)) {
    list.addEventListener("change", () => set({ [name]: list.value }));
  }

  function offer(tenants) {
    const values = {
      server: tenants.map((one) => one.server),
      revision: tenants.map((one) => one.revision),
      cause: tenants.map((one) => one.cause),
    };
    for (const [name, list] of Object.entries(lists)) {
      const known = [...new Set(values[name])].filter((one) => one !== null).sort();
      const chosen = filters[name];
      const offered = chosen === "" || known.includes(chosen) ? known : [...known, chosen];
      fill(
        list,
        el("option", { value: "" }, "Any"),
        offered.map((one) => el("option", { value: one, selected: one === chosen }, one)),
      );
      places[name].hidden = offered.length < (name === "cause" ? 1 : 2);
    }
  }

  function sync(now) {
    for (const [name, list] of Object.entries(lists)) {
      list.value = now[name];
    }
    if (document.activeElement !== search) {
      search.value = now.search;
    }
    where.control.value = now.where;
  }

  const element = el(
    "search",
    { class: "toolbar" },
    field("Search", search),
    where.element,
    Object.values(places),
  );
  return { element, offer, sync, refuses: where.refuses };
}

/** Buttons that change the size of the cells of a grid. */
export function zoomButtons(grid) {
  const smaller = button("−", () => press(-1), { kind: "square", label: "Smaller cells" });
  const larger = button("+", () => press(1), { kind: "square", label: "Larger cells" });
  smaller.setAttribute("aria-disabled", "true");
  function press(step) {
    const { isSmallest, isLargest } = grid.zoomBy(step);
    smaller.setAttribute("aria-disabled", String(isSmallest));
    larger.setAttribute("aria-disabled", String(isLargest));
  }
  return el("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, smaller, larger);
}
