// The form for a new tenant. Its first API key is shown once.

import { send, TENANTS } from "./api.js";
import { copyable, showSecrets } from "./dialogs.js";
import { el } from "./dom.js";
import { choices, field, form, input, newPassword } from "./forms.js";
import { MODULES } from "./modules.js";
import { go } from "./router.js";
import { facts } from "./widgets.js";

/** Show the form. */
export async function view() {
  const modules = MODULES.map(([key, text]) => [key, text, true]);
  const fields = [
    field("Name", input("name", { required: true })),
    el("h2", {}, "Owner"),
    el("p", { class: "hint" }, "The first user of the tenant."),
    field("Full name", input("fullName", { required: true })),
    field("E-mail address", input("email", { type: "email", required: true })),
    newPassword("Password"),
    choices("Modules", "modules", modules),
  ];
  const made = form(fields, { action: "Create tenant", cancel: () => go("/tenants") }, create);
  return [el("h1", {}, "New tenant"), el("div", { class: "panel plan" }, made)];
}

async function create(data) {
  const { name, email, fullName, password } = Object.fromEntries(data);
  const body = { name, owner: { email, fullName, password }, modules: data.getAll("modules") };
  const tenant = await send("POST", TENANTS, body);
  await showSecrets(
    `${tenant.name} was created`,
    "The API key is shown only once.",
    facts({ Database: tenant.databaseName, Owner: tenant.owner.email }),
    copyable("API key", tenant.apiKey),
  );
  go(`/tenants/${tenant.id}`);
}
