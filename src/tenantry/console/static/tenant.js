// One tenant: its state, migrations, modules, users and credentials, and their actions.

import { get, SCHEMA_STATUS, send, TENANTS, withQuery } from "./api.js";
import { apiKeys, mcpTokens } from "./credentials.js";
import { ask, confirm, confirmByName } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { check, driftOf } from "./drift.js";
import { choices, field, form, input } from "./forms.js";
import { isFleet, TENANT } from "./format.js";
import { jobs } from "./jobs.js";
import { chips, editLabels } from "./labels.js";
import { menu } from "./menu.js";
import { MODULES } from "./modules.js";
import { go } from "./router.js";
import { badge, stateOf } from "./states.js";
import { copyActions } from "./tenant_copies.js";
import { migrations } from "./tenant_migrations.js";
import { overview } from "./tenant_overview.js";
import { users } from "./users.js";
import { announce, cut, facts, linkButton, section, shortId, time } from "./widgets.js";

/** Show one tenant. */
export async function view({ params, signal }) {
  const path = `${TENANTS}/${encodeURIComponent(params.id)}`;
  const [found, status] = await Promise.all([
    get(path, { signal }),
    get(SCHEMA_STATUS, { signal }),
  ]);
  const top = el("div", { class: "stack" });
  const change = async (body, done) => {
    draw(await send("PATCH", path, body));
    announce(done);
  };
  const reread = async () => draw(await get(path, { signal }));
  const copies = jobs({ signal, tenantId: params.id, ended: reread });
  const isServed = !isFleet && !found.isAttached;
  const seen = isServed ? overview(path, signal) : { sizeOf: () => null };
  const draw = (now) => {
    const copying = isServed ? copyActions(now, path, copies.first, seen.sizeOf) : [];
    const checking = () => check(`${path}/drift/check`, signal, reread);
    const actions = [...copying, { text: "Check for drift", press: checking }];
    const differences = driftOf(path, now.driftedAt, signal);
    fill(top, head(now, status, path, change, actions), state(now, status, seen), differences);
  };
  draw(found);
  return [
    top,
    migrations(path, status, signal),
    ...(isServed
      ? [
          seen.posts,
          users(path, signal),
          apiKeys(path, signal),
          mcpTokens(path, signal),
          modules(found, change),
        ]
      : []),
    copies.element,
  ];
}

function head(now, status, path, change, actions) {
  const set = (body, done) => () => change(body, done);
  const items = [
    { text: "Rename…", press: () => rename(now, change) },
    { text: "Labels…", press: () => editLabels(path, change) },
    ...actions,
    now.isActive
      ? { text: "Suspend…", press: () => suspend(now, change) }
      : { text: "Activate", press: set({ isActive: true }, "The tenant was activated.") },
    now.isReadOnly
      ? { text: "Make writable", press: set({ isReadOnly: false }, "The tenant is writable.") }
      : { text: "Make read-only…", press: () => makeReadOnly(now, change) },
    !now.isActive &&
      !now.isAttached && { text: "Delete…", press: () => remove(now, path), kind: "danger" },
  ];
  const plan = `#/runs/plan?${new URLSearchParams({ tenant: now.id, name: now.name })}`;
  return el(
    "div",
    { class: "head" },
    el("h1", {}, now.name),
    badge(stateOf(now, status)),
    el(
      "div",
      { class: "actions" },
      now.isActive &&
        !now.isReadOnly &&
        linkButton(plan, `Migrate this ${TENANT.toLowerCase()}`, "primary"),
      now.isActive && now.isReadOnly && readOnly(),
      menu(`Actions for ${now.name}`, isFleet ? actions : items),
    ),
  );
}

function readOnly() {
  const id = "why-not-migrated";
  return [
    el("span", { class: "hint", id }, "Migration runs skip a read-only tenant."),
    el(
      "button",
      { type: "button", class: "primary", disabled: true, "aria-describedby": id },
      "Migrate this tenant",
    ),
  ];
}

function state(now, status, seen) {
  return facts({
    Revision: el("span", { class: "code" }, now.schemaRevision ?? "never seen"),
    Head: el("span", { class: "code" }, status.head),
    Labels: chips(now.labels, { areLinks: true }),
    Kind: now.isAttached ? "attached database" : undefined,
    Server: now.serverName,
    Database: el("span", { class: "code" }, cut(now.databaseName)),
    Size: seen.size,
    "Last active": seen.lastUsed,
    Created: time(now.createdAt),
    "Requests per minute": now.requestsPerMinute || undefined,
    Id: shortId(now.id, "id of the tenant"),
  });
}

function modules(now, change) {
  // A newer service may have modules that these pages do not know.
  const others = now.modules.filter((key) => !MODULES.some(([known]) => known === key));
  const all = [...MODULES, ...others.map((key) => [key, key])];
  const options = all.map(([key, text]) => [key, text, now.modules.includes(key)]);
  const modulesForm = form(
    [choices("Active modules", "modules", options)],
    { action: "Save", kind: "" },
    (data) => change({ modules: data.getAll("modules") }, "The modules were saved."),
  );
  return section("Modules", {}, el("div", { class: "panel" }, modulesForm));
}

function rename(now, change) {
  const fields = [field("Name", input("name", { value: now.name, required: true }))];
  ask("Rename the tenant", fields, { action: "Rename" }, (data) =>
    change({ name: data.get("name") }, "The tenant was renamed."),
  );
}

function suspend(now, change) {
  const text =
    `Requests with credentials of ${now.name} are rejected, and migration runs skip it, ` +
    "until it is activated again.";
  confirm(`Suspend ${now.name}?`, text, "Suspend", () =>
    change({ isActive: false }, "The tenant was suspended."),
  );
}

function makeReadOnly(now, change) {
  const text = `Reads of ${now.name} work, writes are rejected, and migration runs skip it.`;
  return confirm(`Make ${now.name} read-only?`, text, "Make read-only", () =>
    change({ isReadOnly: true }, "The tenant is read-only."),
  );
}

function remove(now, path) {
  const text =
    `Credentials of ${now.name} are rejected, and its name is free. Its database is kept for ` +
    "some days, in which you can undelete it on the page of the tenants.";
  confirmByName(`Delete ${now.name}?`, text, "Delete tenant", async (name) => {
    await send("DELETE", withQuery(path, { name }));
    announce("The tenant was deleted.");
    go("/tenants");
  });
}
