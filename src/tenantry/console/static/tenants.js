// The tenants: a search, filters, and the list, of which some can be chosen.

import { get, SCHEMA_STATUS, TENANTS } from "./api.js";
import { tenantChooser } from "./chosen_tenants.js";
import { deletedTenants } from "./deleted_tenants.js";
import { el } from "./dom.js";
import { field, input, onPause, select } from "./forms.js";
import { listing } from "./listing.js";
import { badge, stateOf } from "./states.js";
import { cut, heading, linkButton, tenantLink, time } from "./widgets.js";

const CHOSEN_MAX = 1000; // tenants of one request
const FILTERS = ["search", "isActive", "isReadOnly", "isFailing", "revision", "server", "page"];
// Each state is one filter of the service.
const STATES = [
  ["", "Any"],
  ["isActive=true", "Active"],
  ["isActive=false", "Suspended"],
  ["isReadOnly=true", "Read-only"],
  ["isFailing=true", "Failing"],
];

/** Show the tenants. The filters and the page are kept in the address. */
export async function view({ query, signal }) {
  const deleted = deletedTenants(signal);
  const status = await get(SCHEMA_STATUS, { signal });
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const choice = tenantChooser({
    every: () => list.every(CHOSEN_MAX),
    changed: () => list.reload(),
  });
  const list = listing("Tenants", {
    path: TENANTS,
    columns: columnsOf(status),
    empty: "No tenant matches.",
    signal,
    pageSize: 50,
    filters,
    choice,
  });
  const search = input("search", {
    type: "search",
    value: filters.search,
    placeholder: "Name, id, database or owner's address",
  });
  const chosen = STATES.find(([value]) => value !== "" && filters[nameOf(value)] !== "");
  const state = select("state", STATES, chosen?.[0]);
  const revision = select("revision", revisionsOf(status, filters.revision), filters.revision);
  const set = (changed) => {
    Object.assign(filters, changed);
    choice.clear();
    return list.first();
  };
  onPause(search, (text) => set({ search: text }));
  state.addEventListener("change", () => {
    const [name, value = ""] = state.value.split("=");
    set({ isActive: "", isReadOnly: "", isFailing: "", ...(name ? { [name]: value } : {}) });
  });
  revision.addEventListener("change", () => set({ revision: revision.value }));
  const controls = [field("Search", search), field("State", state), field("Revision", revision)];
  return [
    heading("Tenants", linkButton("#/tenants/new", "New tenant", "primary")),
    el("div", { class: "stack" }, el("search", { class: "toolbar" }, controls), choice.bar),
    list.results,
    deleted,
  ];
}

function nameOf(filter) {
  return filter.split("=")[0];
}

function columnsOf(status) {
  const state = (one) => stateOf(one, status);
  return [
    { title: "Name", kind: "name", by: "name", cell: (one) => tenantLink(one.id, one.name) },
    { title: "State", by: state, cell: (one) => badge(state(one)) },
    {
      title: "Revision",
      kind: "minor code",
      by: "schemaRevision",
      cell: (one) => one.schemaRevision ?? "never seen",
    },
    { title: "Server", kind: "minor", by: "serverName", cell: (one) => one.serverName },
    { title: "Modules", kind: "minor", cell: (one) => one.modules.join(", ") || "none" },
    { title: "Created", kind: "minor", by: "createdAt", cell: (one) => time(one.createdAt) },
    { title: "Database", kind: "minor code name", cell: (one) => cut(one.databaseName) },
  ];
}

function revisionsOf(status, chosen) {
  const known = status.revisions.map((one) => one.revision).filter((one) => one !== null);
  // Suspended tenants may be at revisions without active tenants.
  const shown = chosen === "" || known.includes(chosen) ? known : [...known, chosen];
  const named = shown.map((one) => [one, one === status.head ? `${one} (head)` : one]);
  return [["", "Any"], ...named];
}
