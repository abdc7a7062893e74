// The deleted tenants, which are kept for some days and can be undeleted.

import { DELETED_TENANTS, send, withQuery } from "./api.js";
import { ask, confirmByName } from "./dialogs.js";
import { field, input } from "./forms.js";
import { listing } from "./listing.js";
import { menuColumn } from "./menu.js";
import { go } from "./router.js";
import { announce, time } from "./widgets.js";

/** A section with the deleted tenants; hidden without any. */
export function deletedTenants(signal) {
  const columns = [
    { title: "Name", kind: "name", by: "name", cell: (one) => one.name },
    { title: "Deleted", by: "deletedAt", cell: (one) => time(one.deletedAt) },
    { title: "Kept until", by: "purgedAfter", cell: (one) => time(one.purgedAfter) },
    menuColumn(
      (one) => one.name,
      (one) => [
        { text: "Undelete…", press: () => undelete(one) },
        { text: "Remove now…", press: () => purge(one, list.reload), kind: "danger" },
      ],
    ),
  ];
  const list = listing("Deleted tenants", {
    path: DELETED_TENANTS,
    columns,
    empty: "",
    signal,
    pageSize: 20,
    loaded: ({ totalCount }) => {
      list.element.hidden = totalCount === 0;
    },
  });
  list.element.hidden = true;
  return list.element;
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
