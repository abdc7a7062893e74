// The dialogs that move one tenant, or every tenant of a server, to another tenant server.

import { get, HEALTH, send, TENANTS } from "./api.js";
import { ask } from "./dialogs.js";
import { bytes, plural } from "./format.js";
import { field, select } from "./forms.js";
import { chosenBy, whereOf } from "./where.js";
import { announce } from "./widgets.js";

// Measured: docs/howto/move-a-tenant.md
const PACE = "A move takes some seconds, and up to 40 s more for each GB.";
const MEANING =
  "Between PostgreSQL servers that allow it, writes are rejected for less than a second. " +
  "Otherwise they are rejected until the copy is complete and compared; reads continue. All " +
  "data, users, keys and logins stay. If the move fails or is cancelled, nothing changes.";

/** Ask for the server to which the tenant `now` is moved; `size` is in bytes, or null. */
export async function moveTenant(now, size, queue) {
  const { servers } = await get(HEALTH);
  const others = servers.filter((one) => one.name !== now.serverName);
  if (others.length === 0) {
    throw new Error(`${now.serverName} is the only one in TENANTRY_TENANT_SERVERS.`);
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
    whereOf("Only those of them that this expression selects. Empty: all of them."),
  ];
  return ask("Move all tenants of a server", fields, { action: "Move all" }, async (data) => {
    const { where, ...between } = Object.fromEntries(data);
    const body = { ...between, ...chosenBy(where) };
    const { count } = await send("POST", `${TENANTS}/move-all`, body);
    announce(`${plural(count, "move")} queued. The page of the backups shows them.`);
  });
}

function expected(size) {
  const known =
    size === null ? "The size of its database is unknown." : `Its database has ${bytes(size)}.`;
  return `${known} ${PACE}`;
}

function choiceOf(name, servers) {
  const options = servers.map((one) => [one.name, one.awaySince ? `${one.name} (away)` : one.name]);
  return select(name, options);
}
