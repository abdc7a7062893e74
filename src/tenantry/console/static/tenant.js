// One tenant: its state, modules, users and credentials, and their actions.

import { get, SCHEMA_STATUS, send, TENANTS, withQuery } from "./api.js";
import { apiKeys, mcpTokens } from "./credentials.js";
import { el, fill } from "./dom.js";
import { choices, confirm, dialog, field, form, input } from "./forms.js";
import { MODULES } from "./modules.js";
import { go } from "./router.js";
import { users } from "./users.js";
import { badge, stateOf } from "./states.js";
import { announce, button, facts, heading, section, time } from "./widgets.js";

/** Show one tenant. */
export async function view({ params, signal }) {
  const path = `${TENANTS}/${params.id}`;
  const [found, status] = await Promise.all([
    get(path, { signal }),
    get(SCHEMA_STATUS, { signal }),
  ]);
  const top = el("div", { class: "stack" });
  const change = async (body, done) => {
    draw(await send("PATCH", path, body));
    announce(done);
  };
  const draw = (now) =>
    fill(top, head(now, path, change), state(now, status), modules(now, change));
  draw(found);
  return [top, users(path, signal), apiKeys(path, signal), mcpTokens(path, signal)];
}

function head(now, path, change) {
  const actions = [
    button("Rename", () => rename(now, change)),
    now.isActive
      ? button("Suspend", () => suspend(now, change))
      : button("Activate", () => change({ isActive: true }, "The tenant was activated.")),
    !now.isActive && button("Delete", () => remove(now, path), { kind: "danger" }),
  ];
  return heading(now.name, actions);
}

function state(now, status) {
  return facts({
    State: badge(stateOf(now, status.head)),
    Revision: now.schemaRevision ?? "never seen",
    Head: status.head,
    Database: el("span", { class: "code" }, now.databaseName),
    Created: time(now.createdAt),
    Id: el("span", { class: "code" }, now.id),
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
  dialog("Rename the tenant", (close) =>
    form(
      [field("Name", input("name", { value: now.name, required: true }))],
      { action: "Rename", cancel: close },
      async (data) => {
        await change({ name: data.get("name") }, "The tenant was renamed.");
        close();
      },
    ),
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

function remove(now, path) {
  const text =
    `This deletes the database of ${now.name}, its users, keys and tokens. ` +
    "This cannot be undone. The migration history keeps its name.";
  dialog(`Delete ${now.name}?`, (close) =>
    form(
      [el("p", {}, text), field("Type the name of the tenant", input("name", { required: true }))],
      { action: "Delete tenant", cancel: close, kind: "danger" },
      async (data) => {
        await send("DELETE", withQuery(path, { name: data.get("name") }));
        close();
        go("/tenants");
      },
    ),
  );
}
