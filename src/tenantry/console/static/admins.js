// The admins: who may manage every tenant.

import { ADMINS, get, send } from "./api.js";
import { confirm, dialog } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { field, form, input } from "./forms.js";
import { menu } from "./menu.js";
import * as session from "./session.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { announce, button, heading, time } from "./widgets.js";

/** Show the admins. */
export async function view({ signal }) {
  const list = el("div", { class: "results" });
  const own = session.current()?.email;
  const load = async () => {
    const { items } = await get(ADMINS, { signal });
    fill(list, table("Admins", columns, items, "There are no admins."));
  };
  const change = async (admin, body, done) => {
    await send("PATCH", `${ADMINS}/${encodeURIComponent(admin.id)}`, body);
    await load();
    announce(done);
  };
  const columns = [
    {
      title: "E-mail address",
      kind: "name",
      cell: (one) => [one.email, one.email === own && el("span", { class: "hint" }, " (you)")],
    },
    {
      title: "State",
      cell: (one) => (one.isActive ? badge("head", "active") : badge("suspended", "inactive")),
    },
    { title: "Created", kind: "minor", cell: (one) => time(one.createdAt) },
    {
      title: "Actions",
      kind: "actions",
      cell: (one) =>
        menu(`Actions for ${one.email}`, [
          { text: "Set password…", press: () => setPassword(one, change) },
          one.isActive
            ? { text: "Deactivate…", press: () => deactivate(one, change), kind: "danger" }
            : {
                text: "Activate",
                press: () => change(one, { isActive: true }, `${one.email} was activated.`),
              },
        ]),
    },
  ];
  await load();
  const add = button("Add an admin", () => create(load), { kind: "primary" });
  return [
    heading("Admins", add),
    el(
      "p",
      { class: "hint" },
      "An admin may manage every tenant. The last active one stays active.",
    ),
    list,
  ];
}

function create(load) {
  dialog("Add an admin", (close) =>
    form(
      [
        field("E-mail address", input("email", { type: "email", required: true })),
        password("Password"),
      ],
      { action: "Add", cancel: close },
      async (data) => {
        await send("POST", ADMINS, Object.fromEntries(data));
        await load();
        close();
        announce(`${data.get("email")} was added.`);
      },
    ),
  );
}

function setPassword(admin, change) {
  dialog(`Set the password of ${admin.email}`, (close) =>
    form(
      [el("p", {}, "All sessions of the admin end."), password("New password")],
      { action: "Set password", cancel: close },
      async (data) => {
        await change(admin, { password: data.get("password") }, "The password was set.");
        close();
      },
    ),
  );
}

function deactivate(admin, change) {
  confirm(`Deactivate ${admin.email}?`, "All sessions of the admin end.", "Deactivate", () =>
    change(admin, { isActive: false }, `${admin.email} was deactivated.`),
  );
}

function password(label) {
  return field(
    label,
    input("password", { type: "password", required: true, autocomplete: "new-password" }),
    "Short and common passwords are rejected.",
  );
}
