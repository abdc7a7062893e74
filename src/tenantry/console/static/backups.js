// Backups: the jobs of all tenants, and the archives of the configured target.

import { ARCHIVES, BACKUPS, send } from "./api.js";
import { ask } from "./dialogs.js";
import { el, onPause } from "./dom.js";
import { field, input } from "./forms.js";
import { bytes, plural } from "./format.js";
import { jobs } from "./jobs.js";
import { listing } from "./listing.js";
import { menu } from "./menu.js";
import { restoreDialog } from "./restore.js";
import { keepQuery } from "./router.js";
import { badge } from "./states.js";
import { chosenBy, whereOf } from "./where.js";
import { announce, button, heading, hint, time } from "./widgets.js";

/** Show the jobs and the archives. */
export async function view({ query, signal }) {
  const value = query.get("search") ?? "";
  const search = input("search", { type: "search", value, placeholder: "Tenant or archive" });
  const queued = async (text) => {
    announce(text);
    await running.first();
  };
  const verify = async (one) => {
    await send("POST", `${ARCHIVES}/verify`, { archive: one.name });
    await queued("The verification is queued.");
  };
  const restore = (one) => restoreDialog(one, () => queued("The restore is queued."));
  const actions = (one) =>
    one.fault === null &&
    menu(`Actions for ${one.name}`, [
      { text: "Verify", press: () => verify(one) },
      one.kind === "tenant" && { text: "Restore…", press: () => restore(one) },
    ]);
  const archives = listing("Archives", {
    path: ARCHIVES,
    columns: [
      {
        title: "Tenant",
        kind: "name",
        by: "tenantName",
        cell: (one) => one.tenantName ?? one.kind ?? "unknown",
      },
      { title: "Created", by: "createdAt", cell: (one) => time(one.createdAt, "–") },
      { title: "Revision", kind: "minor code", by: "revision", cell: (one) => one.revision ?? "–" },
      { title: "Size", kind: "number", by: "size", cell: (one) => bytes(one.size) },
      {
        title: "Fault",
        by: "fault",
        cell: (one) => (one.fault === null ? "–" : badge("failed", one.fault)),
      },
      { title: "Archive", kind: "minor code wide", by: "name", cell: (one) => one.name },
      { title: "Actions", kind: "actions", cell: actions },
    ],
    empty: "There are no archives.",
    signal,
    pageSize: 20,
    query: () => ({ search: search.value }),
    actions: [button("Remove old archives…", () => prune(queued))],
    above: [
      el("search", { class: "toolbar" }, field("Search", search)),
      hint("In TENANTRY_BACKUP_TARGET. An archive has all data of a tenant."),
    ],
  });
  const running = jobs({ signal, ended: archives.reload });

  search.addEventListener("input", () => keepQuery({ search: search.value }));
  onPause(search, archives.first);
  const start = button("Back up everything…", () => backUp(queued), { kind: "primary" });
  return [heading("Backups", start), running.element, archives.element];
}

function prune(queued) {
  const number = (name, value) => input(name, { type: "number", value, min: "0", required: true });
  const fields = [
    "Damaged archives are kept, and those of other secret keys. This cannot be undone.",
    field("Days for which every archive is kept", number("keepDays", "30")),
    field("Newest archives of each tenant to keep", number("keepLast", "3")),
  ];
  const buttons = { action: "Remove", kind: "danger" };
  return ask("Remove old archives", fields, buttons, async (data) => {
    const kept = [...data].map(([name, value]) => [name, Number(value)]);
    await send("POST", `${ARCHIVES}/prune`, Object.fromEntries(kept));
    await queued("The removal is queued.");
  });
}

function backUp(queued) {
  const fields = [
    "This makes one archive of each tenant, and one of the catalog. Tenants are served.",
    whereOf("Only the tenants that this expression selects, without the catalog. Empty: all."),
  ];
  return ask("Back up everything?", fields, { action: "Back up", kind: "danger" }, async (data) => {
    const { count } = await send("POST", BACKUPS, chosenBy(data.get("where")));
    await queued(`${plural(count, "backup")} queued.`);
  });
}
