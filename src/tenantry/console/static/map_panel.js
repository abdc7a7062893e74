// The card and the side panel of a tenant on the map of the fleet.

import { el, fill } from "./dom.js";
import { icon } from "./icons.js";
import { badge } from "./states.js";
import { actionRow, button, facts, hint, linkButton, shortId } from "./widgets.js";

/** A card next to a cell: `show(at, state, name, {detail, error})`, with null to hide it. */
export function hoverCard() {
  const element = el("div", { class: "card", "aria-hidden": "true" });
  element.hidden = true;

  function show(at, state = "", name = "", { detail = "", error = null } = {}) {
    element.hidden = at === null;
    if (at === null) {
      return;
    }
    fill(
      element,
      el("strong", { class: "cut" }, name),
      badge(state),
      detail !== "" && el("span", { class: "hint code" }, detail),
      error !== null && el("span", { class: "alarm" }, error),
    );
    const { width, height } = element.getBoundingClientRect();
    const left = Math.min(at.left, innerWidth - width - 8);
    const isBelow = at.bottom + height + 8 < innerHeight;
    element.style.setProperty("left", `${Math.max(8, left)}px`);
    element.style.setProperty("top", `${isBelow ? at.bottom + 6 : at.top - height - 6}px`);
  }

  return { element, show };
}

/** The panel of the chosen tenant; closing it returns the focus. */
export function sidePanel(signal) {
  const element = el("aside", { class: "panel side", "aria-label": "Chosen tenant" });
  element.hidden = true;
  let opener = /** @type {HTMLElement|null} */ (null);

  function close() {
    element.hidden = true;
    opener?.focus({ preventScroll: true });
  }

  const closer = button(icon("close"), close, { kind: "quiet square", label: "Close" });

  function show(tenant, state, from) {
    opener = from;
    const title = el("h2", { tabindex: "-1" }, tenant.name);
    const plan = `#/runs/plan?${new URLSearchParams({ tenant: tenant.id, name: tenant.name })}`;
    fill(
      element,
      el("div", { class: "head" }, title, closer),
      facts({
        State: badge(state),
        Revision: el("span", { class: "code" }, tenant.revision ?? "never seen"),
        Server: tenant.server,
        Id: shortId(tenant.id),
      }),
      state === "drifted" && hint("Its schema is not the one of its revision: open it to see how."),
      tenant.cause !== null && [
        el("p", { class: "raw code" }, tenant.cause),
        el("a", { href: `#/runs/${tenant.failingRunId}` }, "Show the run that failed"),
      ],
      actionRow(
        linkButton(`#/tenants/${tenant.id}`, "Open", "primary"),
        tenant.isActive && linkButton(plan, "Plan its migration"),
      ),
    );
    element.hidden = false;
    title.focus({ preventScroll: true });
  }

  addEventListener("keydown", (event) => event.key === "Escape" && !element.hidden && close(), {
    signal,
  });
  return { element, show };
}
