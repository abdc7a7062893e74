// The admins: who may manage every tenant.

import { ADMINS, get, send } from "./api.js";
import { confirm } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { field, input } from "./forms.js";
import { menuColumn } from "./menu.js";
import * as session from "./session.js";
import { activity } from "./states.js";
import { table } from "./table.js";
import { addPerson, setPassword } from "./users.js";
import { announce, button, heading, hint, time } from "./widgets.js";

const ENDED_TEXT = "All sessions of the admin end.";

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
        { text: "Set password…", press: () => setPassword(one, ENDED_TEXT, change) },
        one.isActive
          ? { text: "Deactivate…", press: () => deactivate(one, change), kind: "danger" }
          : { text: "Activate", press: () => activate(one, change) },
      ],
    ),
  ];
  await load();
  const email = () => field("E-mail address", input("email", { type: "email", required: true }));
  const press = () => addPerson("Add an admin", ADMINS, [email()], load);
  const add = button("Add an admin", press, { kind: "primary" });
  return [
    heading("Admins", add),
    hint("An admin may manage every tenant. The last active one stays active."),
    list,
  ];
}

function activate(admin, change) {
  return change(admin, { isActive: true }, `${admin.email} was activated.`);
}

function deactivate(admin, change) {
  confirm(`Deactivate ${admin.email}?`, "All sessions of the admin end.", "Deactivate", () =>
    change(admin, { isActive: false }, `${admin.email} was deactivated.`),
  );
}
