// The actions of a tenant that copy its data: backup, restore, clone, move and export.

import { send } from "./api.js";
import { ask, copyable } from "./dialogs.js";
import { exportTenant } from "./export.js";
import { field, input, select } from "./forms.js";
import { moveTenant } from "./moves.js";
import { go } from "./router.js";
import { announce } from "./widgets.js";

const FORMATS = { jsonl: "JSON lines", csv: "CSV" };

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
    { text: "Export…", press: () => exportData(now, path) },
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

function exportData(now, path) {
  const ended = new AbortController();
  const fields = [
    "Every table, with the schema, as a ZIP file. Password hashes and sessions are left out.",
    field("Format of the rows", select("format", Object.entries(FORMATS))),
    copyable(
      "The same as a command, for many gigabytes",
      `tenantry tenant export ${now.id} FOLDER`,
    ),
  ];
  const shown = ask(`Export ${now.name}`, fields, { action: "Download" }, (data) =>
    exportTenant(now, path, data.get("format"), ended.signal),
  );
  return shown.then(() => ended.abort());
}
