// The users of a tenant.

import { send } from "./api.js";
import { ask, confirm } from "./dialogs.js";
import { field, input, newPassword, select } from "./forms.js";
import { listing } from "./listing.js";
import { menuColumn } from "./menu.js";
import { activity } from "./states.js";
import { announce, button, cut, time } from "./widgets.js";

const USERS_ON_A_PAGE = 20;
const ROLES = [
  ["owner", "Owner"],
  ["editor", "Editor"],
  ["author", "Author"],
  ["reader", "Reader"],
];
const ROLE_HINT =
  "Owners manage users and keys. Editors write all posts, authors their own, readers none.";
const ENDED_TEXT = "All sessions and McpTokens of the user end. This cannot be undone.";

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
    { title: "E-mail address", kind: "name", by: "email", cell: (user) => cut(user.email) },
    { title: "Full name", kind: "name minor", by: "fullName", cell: (user) => cut(user.fullName) },
    { title: "Role", kind: "minor", by: "role", cell: (user) => new Map(ROLES).get(user.role) },
    { title: "State", by: (user) => Number(!user.isActive), cell: activity },
    { title: "Created", kind: "minor", by: "createdAt", cell: (user) => time(user.createdAt) },
    menuColumn(
      (user) => user.email,
      (user) => actions(user, change, remove),
    ),
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
  const toggle = () => change(user, { isActive: !isActive }, done);
  const deactivate = () => confirm(`Deactivate ${email}?`, ENDED_TEXT, "Deactivate", toggle);
  const lost = "The sessions and tokens of the user are revoked. This cannot be undone.";
  const asked = () => confirm(`Delete ${email}?`, lost, "Delete", () => remove(user));
  return [
    { text: "Edit…", press: () => edit(user, change) },
    { text: "Set password…", press: () => setPassword(user, change) },
    isActive ? { text: "Deactivate…", press: deactivate } : { text: "Activate", press: toggle },
    { text: "Delete…", kind: "danger", press: asked },
  ];
}

function add(path, list) {
  const fields = [...who({ fullName: "", email: "", role: "editor" }), newPassword("Password")];
  ask("Add a user", fields, { action: "Add" }, async (data, close) => {
    await send("POST", path, Object.fromEntries(data));
    await list.reload();
    close();
    announce(`${data.get("email")} was added.`);
  });
}

function edit(user, change) {
  ask(`Edit ${user.email}`, who(user), { action: "Save" }, (data) =>
    change(user, Object.fromEntries(data), "The user was changed."),
  );
}

function setPassword(user, change) {
  const fields = [ENDED_TEXT, newPassword("New password")];
  ask(`Set the password of ${user.email}`, fields, { action: "Set password" }, (data) =>
    change(user, { password: data.get("password") }, "The password was set."),
  );
}

function who({ fullName, email, role }) {
  return [
    field("Full name", input("fullName", { value: fullName, required: true })),
    field("E-mail address", input("email", { type: "email", value: email, required: true })),
    field("Role", select("role", ROLES, role), ROLE_HINT),
  ];
}
