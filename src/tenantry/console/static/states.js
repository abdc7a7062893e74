// States, of a tenant or of its part in a run: a shape, a colour and a word for each.

import { el } from "./dom.js";

/** The words. */
export const STATES = {
  head: "at head",
  behind: "behind",
  unknown: "unknown",
  suspended: "suspended",
  success: "success",
  failed: "failed",
  pending: "pending",
  running: "running",
};

/** Return where a tenant stands. */
export function stateOf(tenant, head) {
  if (!tenant.isActive) {
    return "suspended";
  }
  if (tenant.schemaRevision === null) {
    return "unknown";
  }
  return tenant.schemaRevision === head ? "head" : "behind";
}

/** A small shape that says a state to whoever sees it; the word must stand beside it. */
export function mark(state) {
  return el("span", { class: `mark mark-${state}`, "aria-hidden": "true" });
}

/** A state in words, with its shape. */
export function badge(state, text = STATES[state]) {
  return el("span", { class: `badge is-${state}` }, mark(state), text);
}
