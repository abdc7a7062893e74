// The page of an address that does not exist.

import { el } from "./dom.js";
import { linkButton } from "./widgets.js";

/** Show that there is nothing at this address. */
export async function view() {
  return [
    el("h1", {}, "Page not found"),
    el("p", {}, "There is nothing at this address of the console."),
    el("div", { class: "actions" }, linkButton("#/fleet", "Show the fleet")),
  ];
}
