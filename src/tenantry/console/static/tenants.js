// The tenants: a search, filters, and the list, of which some can be chosen.

import { get, SCHEMA_STATUS, TENANTS } from "./api.js";
import { tenantChooser } from "./chosen_tenants.js";
import { deletedTenants } from "./deleted_tenants.js";
import { el, fill, onPause } from "./dom.js";
import { field, input, select } from "./forms.js";
import { chips } from "./labels.js";
import { isFleet, TENANT } from "./format.js";
import { listing } from "./listing.js";
import { badge, stateOf } from "./states.js";
import { whereField } from "./where.js";
import { cut, heading, linkButton, tenantLink, time } from "./widgets.js";

const CHOSEN_MAX = 1000; // tenants of one request
const SORTED_MAX = 5000; // as many as are read for another order
const FILTERS = [
  "search",
  "where",
  "isActive",
  "isReadOnly",
  "isFailing",
  "revision",
  "server",
  "page",
];
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
    sortedMax: SORTED_MAX,
    filters,
    choice,
    refuses: (error) => where.refuses(error),
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
    showPlan();
    return list.first();
  };
  const where = whereField(filters.where, (text) => set({ where: text }));
  const plan = el("span");
  // Only of the expression: a run knows no other filter.
  const showPlan = () => {
    const isAlone = FILTERS.every(
      (name) => name === "page" || (filters[name] !== "") === (name === "where"),
    );
    const href = `#/runs/plan?${new URLSearchParams({ where: filters.where })}`;
    fill(plan, isAlone && linkButton(href, "Plan a run of these"));
  };
  showPlan();
  onPause(search, (text) => set({ search: text }));
  state.addEventListener("change", () => {
    const [name, value = ""] = state.value.split("=");
    set({ isActive: "", isReadOnly: "", isFailing: "", ...(name ? { [name]: value } : {}) });
  });
  revision.addEventListener("change", () => set({ revision: revision.value }));
  const controls = [
    field("Search", search),
    where.element,
    field("State", state),
    field("Revision", revision),
  ];
  return [
    heading(`${TENANT}s`, !isFleet && linkButton("#/tenants/new", "New tenant", "primary")),
    el("div", { class: "stack" }, el("search", { class: "toolbar" }, controls), plan, choice.bar),
    list.results,
    !isFleet && deletedTenants(signal),
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
    {
      title: "Labels",
      kind: "minor",
      by: (one) => JSON.stringify(one.labels),
      cell: (one) => chips(one.labels),
    },
    {
      title: "Modules",
      kind: "minor",
      by: modulesOf,
      cell: (one) => modulesOf(one) || "none",
    },
    { title: "Created", kind: "minor", by: "createdAt", cell: (one) => time(one.createdAt) },
    {
      title: "Database",
      kind: "minor code name",
      by: "databaseName",
      cell: (one) => cut(one.databaseName),
    },
  ];
}

function modulesOf({ modules }) {
  return modules.join(", ");
}

function revisionsOf(status, chosen) {
  const known = status.revisions.map((one) => one.revision).filter((one) => one !== null);
  // Suspended tenants may be at revisions without active tenants.
  const shown = chosen === "" || known.includes(chosen) ? known : [...known, chosen];
  const named = shown.map((one) => [one, one === status.head ? `${one} (head)` : one]);
  return [["", "Any"], ...named];
}
