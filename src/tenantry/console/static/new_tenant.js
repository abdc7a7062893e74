// The form for a new tenant. Its first API key is shown once.

import { send, TENANTS } from "./api.js";
import { copyable, showSecrets } from "./dialogs.js";
import { el } from "./dom.js";
import { choices, field, form, input } from "./forms.js";
import { MODULES } from "./modules.js";
import { go } from "./router.js";
import { facts } from "./widgets.js";

/** Show the form. */
export async function view() {
  const fields = [
    field("Name", input("name", { required: true })),
    el("h2", {}, "Owner"),
    el("p", { class: "hint" }, "The first user of the tenant."),
    field("Full name", input("fullName", { required: true })),
    field("E-mail address", input("email", { type: "email", required: true })),
    field(
      "Password",
      input("password", { type: "password", required: true, autocomplete: "new-password" }),
    ),
    choices(
      "Modules",
      "modules",
      MODULES.map(([key, text]) => [key, text, true]),
    ),
  ];
  const made = form(fields, { action: "Create tenant", cancel: () => go("/tenants") }, create);
  return [el("h1", {}, "New tenant"), el("div", { class: "panel plan" }, made)];
}

async function create(data) {
  const tenant = await send("POST", TENANTS, {
    name: data.get("name"),
    owner: {
      email: data.get("email"),
      fullName: data.get("fullName"),
      password: data.get("password"),
    },
    modules: data.getAll("modules"),
  });
  await showSecrets(
    `${tenant.name} was created`,
    "The API key is shown only once.",
    facts({ Database: tenant.databaseName, Owner: tenant.owner.email }),
    copyable("API key", tenant.apiKey),
  );
  go(`/tenants/${tenant.id}`);
}
