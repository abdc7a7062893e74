// What can be done with several tenants: plan a run of them, suspend them, back them up.

import { BACKUPS, send, TENANTS } from "./api.js";
import { chooser } from "./choosing.js";
import { confirm } from "./dialogs.js";
import { isFleet, plural, TENANT } from "./format.js";
import { labelMany } from "./labels.js";
import { go } from "./router.js";
import { planOf } from "./selection.js";
import { announce } from "./widgets.js";

const ANY_STATE = { headers: { "If-Match": "*" } }; // it sets a member, and replaces nothing

/**
 * A choice of tenants.
 *
 * @param {{idOf?: (row: any) => string, nameOf?: (row: any) => string,
 *   every?: () => Promise<any[]>, changed?: () => any}} [options] `changed` is called after
 *   tenants were suspended, activated or labelled.
 */
export function tenantChooser(options = {}) {
  const { idOf = (row) => row.id, nameOf = (row) => row.name, every, changed } = options;
  const changedAll = () => {
    made.clear();
    return changed?.();
  };
  const made = chooser({
    noun: TENANT.toLowerCase(),
    keyOf: idOf,
    nameOf,
    every,
    actions: /** @type {[string, (ids: string[]) => any][]} */ ([
      ["Plan a run…", (ids) => go(planOf(ids))],
      ["Back up", (ids) => backUp(ids, made.clear)],
      ["Label…", (ids) => labelMany(ids, changedAll)],
      ["Suspend…", (ids) => suspend(ids, changedAll)],
      ["Activate", (ids) => setActive(ids, true, changedAll)],
    ]).slice(0, isFleet ? 1 : undefined),
  });
  return made;
}

async function backUp(ids, done) {
  const { count } = await send("POST", BACKUPS, { tenantIds: ids });
  done();
  announce(`${plural(count, "backup")} queued.`);
}

function suspend(ids, done) {
  const number = plural(ids.length, "tenant");
  const text =
    `Requests with credentials of ${ids.length === 1 ? "this tenant" : "these tenants"} are ` +
    "rejected, and migration runs skip them, until they are activated again.";
  return confirm(`Suspend ${number}?`, text, "Suspend", () => setActive(ids, false, done));
}

async function setActive(ids, isActive, done) {
  for (const id of ids) {
    await send("PATCH", `${TENANTS}/${encodeURIComponent(id)}`, { isActive }, ANY_STATE);
  }
  await done();
  announce(`${plural(ids.length, "tenant")} ${isActive ? "activated" : "suspended"}.`);
}
