// The actions of a tenant that copy its data: backup, restore, clone, move and export.

import { send } from "./api.js";
import { ask, copyable, dialog } from "./dialogs.js";
import { el } from "./dom.js";
import { field, input } from "./forms.js";
import { moveTenant } from "./moves.js";
import { go } from "./router.js";
import { announce, button } from "./widgets.js";

/** The items of the tenant's menu; `reload` shows the new job, `sizeOf` returns the bytes. */
export function copyActions(now, path, reload, sizeOf) {
  const queue = async (what, body, done) => {
    await send("POST", `${path}/${what}`, body);
    announce(done);
    await reload();
  };
  return [
    { text: "Back up", press: () => queue("backup", {}, "The backup is queued.") },
    { text: "Restore…", press: () => go(`/backups?search=${encodeURIComponent(now.name)}`) },
    { text: "Clone…", press: () => clone(now, queue) },
    { text: "Move…", press: () => moveTenant(now, sizeOf(), queue) },
    { text: "Export…", press: () => exportHint(now) },
  ];
}

function clone(now, queue) {
  const text =
    `A new tenant with the data of ${now.name} at this moment, and without API keys. To remove ` +
    "personal data on the way, use tenantry tenant clone --anonymise.";
  const fields = [text, field("Name of the clone", input("name", { required: true }))];
  return ask(`Clone ${now.name}`, fields, { action: "Clone" }, (data) =>
    queue("clone", { name: data.get("name") }, "The clone is queued."),
  );
}

function exportHint(now) {
  return dialog(`Export ${now.name}`, (close) => [
    el("p", {}, "Every table as JSON lines, with the schema, written on the server."),
    copyable("Command", `tenantry tenant export ${now.id} FOLDER`),
    el("div", { class: "actions" }, button("Close", close)),
  ]);
}
