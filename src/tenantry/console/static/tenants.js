// The tenants, as a table.

import { get, SCHEMA_STATUS } from "./api.js";
import { tenantBrowser } from "./browser.js";
import { deletedTenants } from "./deleted_tenants.js";
import { el } from "./dom.js";
import { badge, stateOf } from "./states.js";
import { table } from "./table.js";
import { cut, heading, linkButton, time } from "./widgets.js";

const ROWS_ON_A_PAGE = 50;

/** Show the tenants. */
export async function view(page) {
  const [status, deleted] = await Promise.all([
    get(SCHEMA_STATUS, { signal: page.signal }),
    deletedTenants(page.signal),
  ]);
  const render = (found) => rows(found, status);
  const browser = tenantBrowser(page, { pageSize: ROWS_ON_A_PAGE, status, render });
  return [
    heading("Tenants", linkButton("#/tenants/new", "New tenant", "primary")),
    browser.element,
    deleted,
  ];
}

function rows(found, status) {
  const columns = [
    {
      title: "Name",
      kind: "name",
      cell: (one) => el("a", { href: `#/tenants/${one.id}` }, one.name),
    },
    { title: "State", cell: (one) => badge(stateOf(one, status)) },
    { title: "Revision", kind: "minor code", cell: (one) => one.schemaRevision ?? "never seen" },
    { title: "Server", kind: "minor", cell: (one) => one.serverName },
    { title: "Modules", kind: "minor", cell: (one) => one.modules.join(", ") || "none" },
    { title: "Created", kind: "minor", cell: (one) => time(one.createdAt) },
    { title: "Database", kind: "minor code name", cell: (one) => cut(one.databaseName) },
  ];
  return table("Tenants", columns, found, "No tenant matches.");
}
