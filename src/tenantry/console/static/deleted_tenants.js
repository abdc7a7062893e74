// The deleted tenants, which are kept for some days and can be undeleted.

import { DELETED_TENANTS, get, send, withQuery } from "./api.js";
import { el, fill } from "./dom.js";
import { ask, confirmByName } from "./dialogs.js";
import { field, input } from "./forms.js";
import { menuColumn } from "./menu.js";
import { go } from "./router.js";
import { table } from "./table.js";
import { announce, section, time } from "./widgets.js";

const SHOWN_MAX = 100;

/** A section with the deleted tenants; hidden without any. */
export async function deletedTenants(signal) {
  const rows = el("div", { class: "stack" });
  const element = section("Deleted tenants", {}, rows);

  async function load() {
    const { items } = await get(DELETED_TENANTS, { query: { pageSize: SHOWN_MAX }, signal });
    element.hidden = items.length === 0;
    fill(rows, table("Deleted tenants", columns, items, ""));
  }

  const columns = [
    { title: "Name", kind: "name", cell: (one) => one.name },
    { title: "Deleted", cell: (one) => time(one.deletedAt) },
    { title: "Kept until", cell: (one) => time(one.purgedAfter) },
    menuColumn(
      (one) => one.name,
      (one) => [
        { text: "Undelete…", press: () => undelete(one) },
        { text: "Remove now…", press: () => purge(one, load), kind: "danger" },
      ],
    ),
  ];
  await load();
  return element;
}

function undelete(tenant) {
  const name = input("name", { value: tenant.name, required: true });
  const fields = [field("Name", name, "Another one, if another tenant has it by now.")];
  return ask(`Undelete ${tenant.name}`, fields, { action: "Undelete" }, async () => {
    const path = `${DELETED_TENANTS}/${encodeURIComponent(tenant.id)}/undelete`;
    await send("POST", path, { name: name.value });
    announce("The tenant is back, and suspended.");
    go(`/tenants/${tenant.id}`);
  });
}

function purge(tenant, load) {
  const text = `This removes the database of ${tenant.name} now. This cannot be undone.`;
  return confirmByName(`Remove ${tenant.name}?`, text, "Remove", async (name) => {
    const path = `${DELETED_TENANTS}/${encodeURIComponent(tenant.id)}`;
    await send("DELETE", withQuery(path, { name }));
    await load();
    announce("The tenant was removed.");
  });
}
