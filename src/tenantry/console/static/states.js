// The states of tenants and runs, each with a shape, a colour and a word.

import { el } from "./dom.js";

/** The word of each state. */
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

/** Return the state of a tenant. */
export function stateOf(tenant, head) {
  if (!tenant.isActive) {
    return "suspended";
  }
  if (tenant.schemaRevision === null) {
    return "unknown";
  }
  return tenant.schemaRevision === head ? "head" : "behind";
}

/** A small shape for a state; the word must be next to it, for screen readers. */
export function mark(state) {
  return el("span", { class: `mark mark-${state}`, "aria-hidden": "true" });
}

/** The shape and the word of a state. */
export function badge(state, text = STATES[state]) {
  return el("span", { class: `badge is-${state}` }, mark(state), text);
}
