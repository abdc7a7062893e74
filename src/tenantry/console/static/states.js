// The states of tenants and runs, each with a shape, a colour and a word.

import { el } from "./dom.js";
import { count, isFleet } from "./format.js";

/** The word of each state. */
export const STATES = {
  head: "at head",
  behind: "behind",
  failing: "failing",
  drifted: "drifted",
  unknown: "unknown",
  suspended: isFleet ? "not listed" : "suspended",
  readonly: "read-only",
  moving: "migrating",
  success: "succeeded",
  failed: "failed",
  skipped: "not attempted",
  pending: "remaining",
  running: "running",
  holding: "holding",
  stopping: "stopping",
  cancelling: "cancelling",
  stopped: "stopped",
  cancelled: "cancelled",
};

/**
 * Return the state of a tenant of the list, by the response of schema-status.
 *
 * A tenant that failed in its latest attempt is failing, wherever its database was last seen. One
 * that has drifted is shown as that, also if it is behind.
 */
export function stateOf(tenant, status) {
  const known = status.revisions.find((one) => one.revision === tenant.schemaRevision);
  return stateOnMap({ ...tenant, place: known?.place ?? "unknown" });
}

/** Return the state of a tenant of the map. */
export function stateOnMap(tenant) {
  if (!tenant.isActive) {
    return "suspended";
  }
  if (tenant.isReadOnly) {
    return "readonly";
  }
  if (tenant.failingRunId !== null) {
    return "failing";
  }
  return tenant.driftedAt === null ? tenant.place : "drifted";
}

/** Return the number of tenants in each state; they add up to all tenants. */
export function countsOf(status) {
  const { failing, drifted } = status;
  const counts = { head: 0, behind: 0, failing, drifted, unknown: 0 };
  for (const one of status.revisions) {
    counts[one.place] += one.count - one.failing - one.drifted;
  }
  return { ...counts, suspended: status.suspended, readonly: status.readOnly };
}

/** Return the state of a tenant in a run that has ended it. */
export function outcomeOf(detail) {
  if (detail.status === "Success") {
    return "success";
  }
  return detail.isAttempted ? "failed" : "skipped";
}

/** A small shape for a state; the word must be next to it, for screen readers. */
export function mark(state) {
  return el("span", { class: `mark mark-${state}`, "aria-hidden": "true" });
}

/** The shape and the word of a state. */
export function badge(state, text = STATES[state]) {
  return el("span", { class: `badge is-${state}` }, mark(state), text);
}

/** The state of a user or an admin. */
export function activity({ isActive }) {
  return isActive ? badge("head", "active") : badge("suspended", "inactive");
}

/** A large number of things in a state, with its shape; a zero is muted. */
export function figure(state, number) {
  return el(
    "span",
    { class: number === 0 ? "number is-zero" : "number" },
    state !== "" && mark(state),
    count(number),
  );
}

/** A bar with a part for each state, in proportion to its number; the rest is empty. */
export function shares(counts, total) {
  const shown = Object.entries(counts).filter(([, number]) => number > 0);
  const rest = total - shown.reduce((sum, [, number]) => sum + number, 0);
  return el(
    "span",
    { class: "shares", "aria-hidden": "true" },
    shown.map(([state, number]) =>
      el("span", { class: `is-${state}`, style: { "flex-grow": number } }),
    ),
    rest > 0 && el("span", { style: { "flex-grow": rest } }),
  );
}
