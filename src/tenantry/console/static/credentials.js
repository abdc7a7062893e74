// The API keys and the McpTokens of a tenant. A secret is shown once, and never stored.

import { get, send } from "./api.js";
import { ask, confirm, copyable, showSecrets } from "./dialogs.js";
import { now } from "./format.js";
import { choices, field, input, select } from "./forms.js";
import { listing } from "./listing.js";
import { menuColumn } from "./menu.js";
import { SCOPES } from "./modules.js";
import { announce, button, cut, time } from "./widgets.js";

const DAY_MS = 24 * 60 * 60 * 1000;
// The service limits the lifetime, and its clock may be slower than the browser's.
const CLOCK_SLACK_MS = 60 * 1000;
const USERS_OFFERED_MAX = 100;
const ONCE = "It is shown only once. Store it safely: anyone who has it can use it.";
const LIFETIMES = ["7", "30", "90", "365"].map((days) => [days, `${days} days`]);
const GRACE_PERIODS = [
  ["0", "None: reject it immediately"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
  ["604800", "7 days"],
  ["2592000", "30 days"],
];

/** A section with the API keys of the tenant at `tenantPath`. */
export function apiKeys(tenantPath, signal) {
  const path = `${tenantPath}/api-keys`;
  const columns = [
    { title: "Begins with", kind: "code", by: "prefix", cell: (key) => `${key.prefix}…` },
    { title: "Last used", by: "lastUsedAt", cell: (key) => time(key.lastUsedAt) },
    { title: "Expires", by: "expiresAt", cell: (key) => time(key.expiresAt, "never") },
    { title: "Created", kind: "minor", by: "createdAt", cell: (key) => time(key.createdAt) },
    menuColumn(
      (key) => key.prefix,
      (key) => [
        { text: "Rotate…", press: () => rotate(path, key, list) },
        { text: "Revoke…", press: () => revoke(path, key, list), kind: "danger" },
      ],
    ),
  ];
  const list = listing("API keys", {
    path,
    columns,
    signal,
    empty: "The tenant has no API key, so its users cannot log in: only McpTokens work.",
    actions: [button("Issue a key", () => issueKey(path, list))],
  });
  return list.element;
}

/** A section with the McpTokens of the tenant at `tenantPath`. */
export function mcpTokens(tenantPath, signal) {
  const path = `${tenantPath}/mcp-tokens`;
  const columns = [
    { title: "Name", kind: "name", by: "name", cell: (token) => cut(token.name) },
    {
      title: "Begins with",
      kind: "minor code",
      by: "prefix",
      cell: (token) => `${token.prefix}…`,
    },
    {
      title: "Acts for",
      kind: "minor",
      by: (token) => Number(token.userId === null),
      cell: (token) => (token.userId === null ? "the tenant" : "a user"),
    },
    {
      title: "Scopes",
      kind: "minor",
      by: (token) => token.scopes.join(", "),
      cell: (token) => token.scopes.join(", "),
    },
    {
      title: "Last used",
      kind: "minor",
      by: "lastUsedAt",
      cell: (token) => time(token.lastUsedAt),
    },
    { title: "Expires", by: "expiresAt", cell: (token) => time(token.expiresAt) },
    menuColumn(
      (token) => token.name,
      (token) => [{ text: "Revoke…", press: () => revoke(path, token, list), kind: "danger" }],
    ),
  ];
  const list = listing("McpTokens", {
    path,
    columns,
    signal,
    empty: "The tenant has no McpToken.",
    actions: [button("Issue a token", () => issueToken(tenantPath, list, signal))],
  });
  return list.element;
}

function issueKey(path, list) {
  const fields = [field("Expires after", select("days", [["", "Never"], ...LIFETIMES]))];
  ask("Issue an API key", fields, { action: "Issue" }, async (data, close) => {
    const issued = await send("POST", path, expiry(data));
    close();
    await showKey(issued, list);
  });
}

async function showKey(issued, list) {
  await showSecrets("The new API key", ONCE, copyable("API key", issued.key));
  await list.reload();
}

function rotate(path, key, list) {
  const text = `A new key replaces ${key.prefix}…, which stays valid for the chosen time.`;
  const period = select("gracePeriodSeconds", GRACE_PERIODS, "86400");
  const fields = [text, field("Keep the old key valid for", period)];
  ask("Rotate the API key", fields, { action: "Rotate" }, async (_, close) => {
    const body = { gracePeriodSeconds: Number(period.value) };
    const issued = await send("POST", `${path}/${key.id}/rotate`, body);
    close();
    await showKey(issued, list);
  });
}

function revoke(path, credential, list) {
  const text = "It is rejected immediately. Clients that use it get a 401.";
  confirm(`Revoke ${credential.name ?? `${credential.prefix}…`}?`, text, "Revoke", async () => {
    await send("DELETE", `${path}/${credential.id}`);
    await list.reload();
    announce("Revoked.");
  });
}

async function issueToken(tenantPath, list, signal) {
  const query = { pageSize: USERS_OFFERED_MAX };
  const { items } = await get(`${tenantPath}/users`, { query, signal });
  const people = items.filter((user) => user.isActive).map((user) => [user.id, user.email]);
  const fields = [
    field("Name", input("name", { required: true }), "For example “Ada's assistant”."),
    field(
      "Acts for",
      select("userId", [["", "The tenant, without a user"], ...people]),
      "Only a token of a user can read and change a profile.",
    ),
    choices(
      "Scopes",
      "scopes",
      SCOPES.map(([scope, text]) => [scope, text, scope.endsWith(":read")]),
    ),
    field("Expires after", select("days", LIFETIMES, "30")),
  ];
  ask("Issue an McpToken", fields, { action: "Issue" }, async (data, close) => {
    const user = data.get("userId");
    const issued = await send("POST", `${tenantPath}/mcp-tokens`, {
      name: data.get("name"),
      scopes: data.getAll("scopes"),
      ...(user === "" ? {} : { userId: user }),
      ...expiry(data),
    });
    close();
    const token = copyable("McpToken", issued.token);
    await showSecrets("The new McpToken", ONCE, token, configurations(issued));
    await list.reload();
  });
}

function expiry(data) {
  const days = data.get("days");
  if (days === "") {
    return {};
  }
  const expiresAt = new Date(now() + Number(days) * DAY_MS - CLOCK_SLACK_MS);
  return { expiresAt: expiresAt.toISOString() };
}

/** The configurations of MCP clients with the token. */
function configurations(issued) {
  return issued.clientConfigurations.map(({ client, place, text }) =>
    copyable(client, text, { hint: `For ${place}` }),
  );
}
