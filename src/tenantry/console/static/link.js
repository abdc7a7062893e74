// The page that a one-time link opens: an invited person, or a user who resets the password.
// The secret is in the fragment, which browsers send to no server. It leaves the address at once.

import { send } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { field, form, input, newPassword } from "./forms.js";
import { brand } from "./icons.js";
import { applyTheme } from "./theme.js";
import { notice } from "./widgets.js";

const LINKS = "/api/links";
const INCOMPLETE = "The link is not complete. Open it again, or copy all of it into the address.";

const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
addEventListener("hashchange", () => location.reload()); // another link in the same tab
applyTheme();
start();

async function start() {
  if (secret === "") {
    show("Set your password", notice("bad", INCOMPLETE));
    return;
  }
  try {
    choose(await send("POST", `${LINKS}/show`, { secret }));
  } catch ({ message }) {
    show("Set your password", notice("bad", message));
  }
}

/** Ask for the password, and for the name of a new user. */
function choose({ isInvitation, tenantName, email, role }) {
  const name = input("fullName", { required: true, autocomplete: "name" });
  const fields = [
    // A password manager stores it with the password.
    field(
      "E-mail address",
      input("email", { value: email, readonly: true, autocomplete: "username" }),
    ),
    isInvitation && field("Full name", name),
    newPassword("New password"),
  ];
  const action = isInvitation ? "Create your account" : "Set the password";
  const made = form(fields.filter(Boolean), { action }, async (data) => {
    await send("POST", `${LINKS}/use`, {
      secret,
      password: data.get("password"),
      ...(isInvitation && { fullName: data.get("fullName") }),
    });
    const text = `Your password is set. Log in to ${tenantName} as ${email} with it.`;
    show("Done", notice("info", text));
  });
  const as = role === "reader" ? "a reader" : `an ${role}`;
  show(isInvitation ? `You are invited to ${tenantName} as ${as}` : "Set a new password", made);
}

function show(title, content) {
  document.title = title;
  const heading = el("h1", { class: "brand-name", tabindex: "-1" }, brand(), title);
  fill(byId("app"), el("main", { class: "sign-in" }, heading, content));
  heading.focus();
}
