// The columns of the tables of a plan.

import { el } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { remedyOf } from "./remedies.js";
import { badge } from "./states.js";
import { tenantLink } from "./widgets.js";

export const PATHS = [
  {
    title: "Tenants",
    kind: "number",
    by: (path) => path.tenants.length,
    cell: (path) => count(path.tenants.length),
  },
  {
    title: "State",
    by: (path) => Number(path.pending === null),
    cell: (path) =>
      path.pending === null
        ? badge("head")
        : badge("behind", path.isRehearsed ? "passed the rehearsal" : "pending, not tried"),
  },
  { title: "From", kind: "code", by: "from", cell: (path) => path.from ?? "–" },
  {
    title: "Pending revisions, in order",
    kind: "wide",
    by: "pending",
    cell: (path) =>
      path.pending === null
        ? "nothing"
        : el(
            "ol",
            { class: "path" },
            path.pending.split(",").map((name) => el("li", { class: "code" }, name)),
          ),
  },
  {
    title: "Each takes",
    kind: "number minor",
    by: ({ took }) => took?.medianMs,
    cell: ({ took }) =>
      took === undefined
        ? "–"
        : el(
            "span",
            { title: `The median of ${plural(took.customerCount, "earlier tenant")}` },
            duration(took.medianMs / 1000),
          ),
  },
  {
    title: "For example",
    kind: "minor name",
    cell: (path) => path.tenants.slice(0, 3).join(", "),
  },
];
export const CAUSES = [
  { title: "Tenants", kind: "number", by: "count", cell: (one) => count(one.count) },
  {
    title: "Cause",
    kind: "wide",
    by: "cause",
    cell: (one) => el("span", { class: "raw code" }, one.cause),
  },
  { title: "What to do", kind: "wide", cell: (one) => remedyOf(one.cause) },
  {
    title: "For example",
    kind: "minor name",
    cell: (one) => tenantLink(one.sampleCustomerId, one.name),
  },
];
export const ERRORS = [
  {
    title: "Tenant",
    kind: "name",
    by: "customerName",
    cell: (one) => tenantLink(one.customerId, one.customerName),
  },
  { title: "State", cell: () => badge("failed") },
  {
    title: "Error",
    kind: "wide",
    by: "error",
    cell: (one) => el("span", { class: "raw code" }, one.error),
  },
];
export const SLOWEST = [
  {
    title: "Tenant",
    kind: "name",
    by: "tenant",
    cell: (one) => tenantLink(one.customerId, one.tenant),
  },
  {
    title: "Rehearsed in",
    kind: "number",
    by: "durationMs",
    cell: (one) => duration(one.durationMs / 1000),
  },
];
