// The admins: who may manage every tenant.

import { ADMINS, get, send } from "./api.js";
import { ask, confirm } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { field, input, newPassword } from "./forms.js";
import { menuColumn } from "./menu.js";
import * as session from "./session.js";
import { activity } from "./states.js";
import { table } from "./table.js";
import { announce, button, heading, hint, time } from "./widgets.js";

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
      by: "email",
      cell: (one) => [one.email, one.email === own && el("span", { class: "hint" }, " (you)")],
    },
    { title: "State", by: (one) => Number(!one.isActive), cell: activity },
    { title: "Created", kind: "minor", by: "createdAt", cell: (one) => time(one.createdAt) },
    menuColumn(
      (one) => one.email,
      (one) => [
        { text: "Set password…", press: () => setPassword(one, change) },
        one.isActive
          ? { text: "Deactivate…", press: () => deactivate(one, change), kind: "danger" }
          : { text: "Activate", press: () => activate(one, change) },
      ],
    ),
  ];
  await load();
  const add = button("Add an admin", () => create(load), { kind: "primary" });
  return [
    heading("Admins", add),
    hint("An admin may manage every tenant. The last active one stays active."),
    list,
  ];
}

function create(load) {
  const email = field("E-mail address", input("email", { type: "email", required: true }));
  const fields = [email, newPassword("Password")];
  ask("Add an admin", fields, { action: "Add" }, async (data, close) => {
    await send("POST", ADMINS, Object.fromEntries(data));
    await load();
    close();
    announce(`${data.get("email")} was added.`);
  });
}

function setPassword(admin, change) {
  const fields = ["All sessions of the admin end.", newPassword("New password")];
  ask(`Set the password of ${admin.email}`, fields, { action: "Set password" }, (data) =>
    change(admin, { password: data.get("password") }, "The password was set."),
  );
}

function activate(admin, change) {
  return change(admin, { isActive: true }, `${admin.email} was activated.`);
}

function deactivate(admin, change) {
  confirm(`Deactivate ${admin.email}?`, "All sessions of the admin end.", "Deactivate", () =>
    change(admin, { isActive: false }, `${admin.email} was deactivated.`),
  );
}
