// A button that opens a menu of actions.

import { all, el } from "./dom.js";
import { icon } from "./icons.js";
import { complain } from "./widgets.js";

/**
 * @param {string} label Of the button, for example "Actions for ada@example.com".
 * @param {(false|null|{text: string, press: () => any, kind?: string})[]} items
 */
export function menu(label, items) {
  const list = el("div", { class: "menu", popover: "auto", role: "menu" });
  const close = () => list.hidePopover();
  list.append(
    ...items
      .filter((item) => item !== false && item !== null)
      .map(({ text, press, kind = "" }) => {
        const run = async () => {
          close();
          opener.focus();
          try {
            await press();
          } catch (error) {
            complain(error);
          }
        };
        return el("button", { type: "button", role: "menuitem", class: kind, onclick: run }, text);
      }),
  );
  const opener = el(
    "button",
    {
      type: "button",
      class: "quiet square",
      "aria-label": label,
      "aria-haspopup": "menu",
      onclick: () => open(opener, list),
    },
    icon("more"),
  );
  list.addEventListener("keydown", (event) => move(event, list));
  return el("span", { class: "menu-place" }, opener, list);
}

/** The column of a table with a menu for each row; `nameOf` is for screen readers. */
export function menuColumn(nameOf, itemsOf) {
  const cell = (row) => menu(`Actions for ${nameOf(row)}`, itemsOf(row));
  return { title: "Actions", kind: "actions", cell };
}

function open(opener, list) {
  list.showPopover();
  const at = opener.getBoundingClientRect();
  const { width, height } = list.getBoundingClientRect();
  const isBelow = at.bottom + height + 8 < innerHeight;
  list.style.setProperty("left", `${Math.max(8, at.right - width)}px`);
  list.style.setProperty("top", `${isBelow ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`);
  all("button", list)[0]?.focus();
}

function move(event, list) {
  const items = all("button", list);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  if (step !== undefined) {
    event.preventDefault();
    items[(at + step + items.length) % items.length].focus();
  } else if (event.key === "Tab") {
    list.hidePopover();
  }
}
