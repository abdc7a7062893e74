// The tenants: a search, two filters and a table with pages.

import { get, latestOf, SCHEMA_STATUS, TENANTS } from "./api.js";
import { deletedTenants } from "./deleted_tenants.js";
import { el, fill } from "./dom.js";
import { field, input, onPause, select } from "./forms.js";
import { keepQuery } from "./router.js";
import { badge, stateOf } from "./states.js";
import { pager, table } from "./table.js";
import { cut, heading, linkButton, loadInto, skeleton, tenantLink, time } from "./widgets.js";

const ROWS_ON_A_PAGE = 50;
const FILTERS = ["search", "isActive", "revision", "page"];
const ACTIVITY = [
  ["", "All"],
  ["true", "Active"],
  ["false", "Suspended"],
];

/** Show the tenants. The filters and the page are kept in the address. */
export async function view({ query, signal }) {
  const [status, deleted] = await Promise.all([
    get(SCHEMA_STATUS, { signal }),
    deletedTenants(signal),
  ]);
  const columns = columnsOf(status);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const search = input("search", {
    type: "search",
    value: filters.search,
    placeholder: "Name, id, database or owner's address",
  });
  const isActive = select("isActive", ACTIVITY, filters.isActive);
  const revision = select("revision", revisionsOf(status, filters.revision), filters.revision);
  const results = el("div", { class: "results" }, skeleton(10));
  const next = latestOf(signal);

  async function load() {
    const ours = next();
    results.setAttribute("aria-busy", "true");
    await loadInto(results, ours, async () => {
      const wanted = { ...filters, pageSize: ROWS_ON_A_PAGE };
      const found = await get(TENANTS, { query: wanted, signal: ours });
      const turn = (page) => ask({ page: String(page) });
      const rows = table("Tenants", columns, found.items, "No tenant matches.");
      fill(results, pager(found, turn, "tenants"), rows);
    });
    if (!ours.aborted) {
      results.removeAttribute("aria-busy");
    }
  }

  function ask(changed) {
    Object.assign(filters, { page: "" }, changed);
    keepQuery(filters);
    return load();
  }

  onPause(search, (text) => ask({ search: text }));
  isActive.addEventListener("change", () => ask({ isActive: isActive.value }));
  revision.addEventListener("change", () => ask({ revision: revision.value }));
  load();
  const controls = [field("Search", search), field("State", isActive), field("Revision", revision)];
  return [
    heading("Tenants", linkButton("#/tenants/new", "New tenant", "primary")),
    el("div", { class: "stack" }, el("search", { class: "toolbar" }, controls), results),
    deleted,
  ];
}

function columnsOf(status) {
  return [
    { title: "Name", kind: "name", cell: (one) => tenantLink(one.id, one.name) },
    { title: "State", cell: (one) => badge(stateOf(one, status)) },
    { title: "Revision", kind: "minor code", cell: (one) => one.schemaRevision ?? "never seen" },
    { title: "Server", kind: "minor", cell: (one) => one.serverName },
    { title: "Modules", kind: "minor", cell: (one) => one.modules.join(", ") || "none" },
    { title: "Created", kind: "minor", cell: (one) => time(one.createdAt) },
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
