// The users of a tenant.

import { send } from "./api.js";
import { ask, confirm, copyable, showSecrets } from "./dialogs.js";
import { field, input, newPassword, select } from "./forms.js";
import { listing } from "./listing.js";
import { menuColumn } from "./menu.js";
import { activity } from "./states.js";
import { announce, button, cut, time } from "./widgets.js";

const USERS_ON_A_PAGE = 20;
const ROLES = ["Owner", "Editor", "Author", "Reader"].map((text) => [text.toLowerCase(), text]);
const ONCE = "It is shown only once, and works once, for 72 hours. Send it to this person only.";
const ENDED_TEXT = "All sessions and McpTokens of the user end. This cannot be undone.";

/** A section with the users of the tenant at `tenantPath`. */
export function users(tenantPath, signal) {
  const path = `${tenantPath}/users`;
  const act = async (method, user, body, done) => {
    await send(method, `${path}/${user.id}`, body);
    await list.reload();
    announce(done);
  };
  const change = (user, body, done) => act("PATCH", user, body, done);
  const remove = (user) => act("DELETE", user, undefined, "The user was deleted.");
  const columns = [
    { title: "E-mail address", kind: "name", by: "email", cell: (user) => cut(user.email) },
    { title: "Full name", kind: "name minor", by: "fullName", cell: (user) => cut(user.fullName) },
    { title: "Role", kind: "minor", by: "role", cell: (user) => user.role },
    { title: "State", by: (user) => Number(!user.isActive), cell: activity },
    { title: "Created", kind: "minor", by: "createdAt", cell: (user) => time(user.createdAt) },
    menuColumn(
      (user) => user.email,
      (user) => actions(user, change, remove, path),
    ),
  ];
  const list = listing("Users", {
    path,
    columns,
    signal,
    pageSize: USERS_ON_A_PAGE,
    empty: "The tenant has no users.",
    actions: [
      button("Invite", () => invite(`${tenantPath}/invitations`)),
      button("Add a user", () => addPerson("Add a user", path, who({}), list.reload)),
    ],
  });
  return list.element;
}

function actions(user, change, remove, path) {
  const { email, isActive } = user;
  const done = `${email} was ${isActive ? "deactivated" : "activated"}.`;
  const toggle = () => change(user, { isActive: !isActive }, done);
  const deactivate = () => confirm(`Deactivate ${email}?`, ENDED_TEXT, "Deactivate", toggle);
  const asked = () => confirm(`Delete ${email}?`, ENDED_TEXT, "Delete", () => remove(user));
  return [
    { text: "Edit…", press: () => edit(user, change) },
    { text: "Set password…", press: () => setPassword(user, ENDED_TEXT, change) },
    { text: "Make a reset link", press: () => showLink(`${path}/${user.id}/reset-link`, {}) },
    isActive ? { text: "Deactivate…", press: deactivate } : { text: "Activate", press: toggle },
    { text: "Delete…", kind: "danger", press: asked },
  ];
}

function invite(path) {
  ask("Invite a user", who({}).slice(1), { action: "Make a link" }, (data, close) =>
    showLink(path, Object.fromEntries(data), close),
  );
}

async function showLink(path, body, close = () => {}) {
  const { url, email } = await send("POST", path, body);
  close();
  await showSecrets(`Link for ${email}`, ONCE, copyable("Link", url));
}

/** Ask for the password of a new user or admin besides the `fields`, and add them at `path`. */
export function addPerson(title, path, fields, reload) {
  ask(title, [...fields, newPassword("Password")], { action: "Add" }, async (data, close) => {
    await send("POST", path, Object.fromEntries(data));
    await reload();
    close();
    announce(`${data.get("email")} was added.`);
  });
}

function edit(user, change) {
  ask(`Edit ${user.email}`, who(user), { action: "Save" }, (data) =>
    change(user, Object.fromEntries(data), "The user was changed."),
  );
}

/** Ask for a new password of a user or an admin; `text` says what ends with the old one. */
export function setPassword(person, text, change) {
  const fields = [text, newPassword("New password")];
  ask(`Set the password of ${person.email}`, fields, { action: "Set password" }, (data) =>
    change(person, { password: data.get("password") }, "The password was set."),
  );
}

function who({ fullName = "", email = "", role = "editor" }) {
  return [
    field("Full name", input("fullName", { value: fullName, required: true })),
    field("E-mail address", input("email", { type: "email", value: email, required: true })),
    field("Role", select("role", ROLES, role)),
  ];
}
