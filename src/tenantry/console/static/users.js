// The users of a tenant.

import { send } from "./api.js";
import { confirm, dialog } from "./dialogs.js";
import { field, form, input } from "./forms.js";
import { listing } from "./listing.js";
import { menu } from "./menu.js";
import { badge } from "./states.js";
import { announce, button, cut, time } from "./widgets.js";

const USERS_ON_A_PAGE = 20;

/** A section with the users of the tenant at `tenantPath`. */
export function users(tenantPath, signal) {
  const path = `${tenantPath}/users`;
  const change = async (user, body, done) => {
    await send("PATCH", `${path}/${user.id}`, body);
    await list.reload();
    announce(done);
  };
  const remove = async (user) => {
    await send("DELETE", `${path}/${user.id}`);
    await list.reload();
    announce("The user was deleted.");
  };
  const columns = [
    { title: "E-mail address", kind: "name", cell: (user) => cut(user.email) },
    { title: "Full name", kind: "name minor", cell: (user) => cut(user.fullName) },
    {
      title: "State",
      cell: (user) => (user.isActive ? badge("head", "active") : badge("suspended", "inactive")),
    },
    { title: "Created", kind: "minor", cell: (user) => time(user.createdAt) },
    { title: "Actions", kind: "actions", cell: (user) => actions(user, change, remove) },
  ];
  const list = listing("Users", {
    path,
    columns,
    signal,
    pageSize: USERS_ON_A_PAGE,
    empty: "The tenant has no users.",
    actions: [button("Add a user", () => add(path, list))],
  });
  return list.element;
}

function actions(user, change, remove) {
  const { email, isActive } = user;
  const done = `${email} was ${isActive ? "deactivated" : "activated"}.`;
  return menu(`Actions for ${email}`, [
    { text: "Edit…", press: () => edit(user, change) },
    { text: "Set password…", press: () => setPassword(user, change) },
    {
      text: isActive ? "Deactivate" : "Activate",
      press: () => change(user, { isActive: !isActive }, done),
    },
    {
      text: "Delete…",
      kind: "danger",
      press: () =>
        confirm(
          `Delete ${email}?`,
          "The sessions and tokens of the user are revoked. This cannot be undone.",
          "Delete",
          () => remove(user),
        ),
    },
  ]);
}

function add(path, list) {
  dialog("Add a user", (close) =>
    form(
      [...who({ fullName: "", email: "" }), password("Password")],
      { action: "Add", cancel: close },
      async (data) => {
        await send("POST", path, Object.fromEntries(data));
        await list.reload();
        close();
        announce(`${data.get("email")} was added.`);
      },
    ),
  );
}

function edit(user, change) {
  dialog(`Edit ${user.email}`, (close) =>
    form(who(user), { action: "Save", cancel: close }, async (data) => {
      await change(user, Object.fromEntries(data), "The user was changed.");
      close();
    }),
  );
}

function setPassword(user, change) {
  dialog(`Set the password of ${user.email}`, (close) =>
    form([password("New password")], { action: "Set password", cancel: close }, async (data) => {
      await change(user, { password: data.get("password") }, "The password was set.");
      close();
    }),
  );
}

function who({ fullName, email }) {
  return [
    field("Full name", input("fullName", { value: fullName, required: true })),
    field("E-mail address", input("email", { type: "email", value: email, required: true })),
  ];
}

function password(label) {
  return field(
    label,
    input("password", { type: "password", required: true, autocomplete: "new-password" }),
    "Short and common passwords are rejected.",
  );
}
