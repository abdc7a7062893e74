// The page of an address that does not exist.

import { el } from "./dom.js";
import { heading, linkButton } from "./widgets.js";

/** Show that there is nothing at this address. */
export async function view() {
  return [
    heading("Page not found", linkButton("#/fleet", "Show the fleet")),
    el("p", {}, "There is nothing at this address of the console."),
  ];
}
