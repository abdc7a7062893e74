// The dialogs that move one tenant, or every tenant of a server, to another tenant server.

import { get, HEALTH, send, TENANTS } from "./api.js";
import { ask, dialog } from "./dialogs.js";
import { el } from "./dom.js";
import { bytes, duration, plural } from "./format.js";
import { field, select } from "./forms.js";
import { announce, button } from "./widgets.js";

// Measured: docs/howto/move-a-tenant.md.
const SECONDS_PER_GB = 40;
const SECONDS_MIN = 1;
const MEANING =
  "Writes are rejected until the copy is complete and compared; reads continue. All data, users, " +
  "keys and logins stay. If the move fails or is cancelled, nothing changes.";

/** Ask for the server to which the tenant `now` is moved; `size` is in bytes, or null. */
export async function moveTenant(now, size, queue) {
  const { servers } = await get(HEALTH);
  const others = servers.filter((one) => one.name !== now.serverName);
  if (others.length === 0) {
    return noServer(now.serverName);
  }
  const fields = [MEANING, expected(size), field("New tenant server", choiceOf("server", others))];
  return ask(`Move ${now.name}`, fields, { action: "Move" }, (data) =>
    queue("move", { server: data.get("server") }, "The move is queued."),
  );
}

/** Ask for two servers, and move every tenant of one to the other. */
export function moveAll(servers) {
  const fields = [
    `Every tenant that is on the first server now is moved, each as a job. ${MEANING}`,
    field("From", choiceOf("fromServer", servers)),
    field("To", choiceOf("toServer", servers.slice(1).concat(servers[0]))),
  ];
  return ask("Move all tenants of a server", fields, { action: "Move all" }, async (data) => {
    const { count } = await send("POST", `${TENANTS}/move-all`, Object.fromEntries(data));
    announce(`${plural(count, "move")} queued. The page of the backups shows them.`);
  });
}

function expected(size) {
  if (size === null) {
    return "The size of its database is unknown: a move takes about 40 s for each GB.";
  }
  const seconds = Math.max(SECONDS_MIN, (size / 1e9) * SECONDS_PER_GB);
  return `Its database has ${bytes(size)}: expect about ${duration(Math.ceil(seconds))}.`;
}

function choiceOf(name, servers) {
  const textOf = (one) => (one.awaySince === null ? one.name : `${one.name} (away)`);
  return select(
    name,
    servers.map((one) => [one.name, textOf(one)]),
  );
}

function noServer(name) {
  return dialog("Move a tenant", (close) => [
    el("p", {}, `${name} is the only tenant server. Add another one to TENANTRY_TENANT_SERVERS.`),
    el("div", { class: "actions" }, button("Close", close)),
  ]);
}
