// The health of the service: readiness, workers, tenant servers and the release.

import { get, HEALTH } from "./api.js";
import { el, fill } from "./dom.js";
import { count, distance, isFleet } from "./format.js";
import { moveAll } from "./moves.js";
import { badge } from "./states.js";
import { table } from "./table.js";
import { button, facts, failure, heading, section, shortId, time } from "./widgets.js";

const HOOKS = "/api/admin/hooks";
const POLL_MS = 5000;
const MISSING = "This worker has no heartbeat. Others take over what it has claimed.";

const WORKERS = [
  {
    title: "Worker",
    kind: "wide",
    by: "program",
    cell: (one) => [
      one.program || "unknown",
      one.isThis && el("span", { class: "hint" }, " (answers here)"),
    ],
  },
  {
    title: "State",
    by: (one) => Number(one.isAlive),
    cell: (one) => (one.isAlive ? badge("head", "alive") : badge("failed", "silent")),
  },
  {
    title: "Heartbeat",
    by: "seenAt",
    cell: (one) => (one.isAlive ? "now" : distance(one.seenAt)),
  },
  {
    title: "In work",
    kind: "number",
    by: (one) => one.inWorkCount + one.abandonedCount,
    cell: (one) =>
      one.abandonedCount > 0 ? `${count(one.abandonedCount)} abandoned` : count(one.inWorkCount),
  },
  { title: "Id", kind: "minor", cell: (one) => shortId(one.id, "id of the worker") },
];
const SERVERS = [
  { title: "Tenant server", kind: "name", by: "name", cell: (one) => one.name },
  {
    title: "State",
    by: (one) => Number(one.awaySince === null),
    cell: (one) => (one.awaySince === null ? badge("head", "reachable") : badge("failed", "away")),
  },
  { title: "Away since", by: "awaySince", cell: (one) => time(one.awaySince, "–") },
];

const TARGETS = [
  { title: "Target", kind: "name", by: "name", cell: (one) => one.name },
  { title: "Sent to", kind: "code", by: "url", cell: (one) => one.url },
  {
    title: "Last attempt",
    by: ({ last }) => last?.attemptedAt,
    cell: ({ last }) => (last === null ? "–" : time(last.attemptedAt)),
  },
  {
    title: "Result",
    kind: "wide",
    by: ({ last }) => last?.state,
    cell: ({ last }) =>
      last !== null && [
        badge(last.state === "delivered" ? "head" : "failed", last.state),
        ` ${last.event}: ${last.result}`,
      ],
  },
  ...["queued", "delivered", "failed", "dropped"].map((what) => ({
    title: { queued: "Waiting" }[what] ?? what[0].toUpperCase() + what.slice(1),
    kind: "number",
    by: `${what}Count`,
    cell: (one) => count(one[`${what}Count`]),
  })),
];

const ERRORS = [
  { title: "When", by: "at", cell: (one) => time(one.at) },
  { title: "Status", kind: "number", by: "statusCode", cell: (one) => one.statusCode },
  {
    title: "Request",
    kind: "wide",
    by: "path",
    cell: (one) => el("span", { class: "code" }, `${one.method} ${one.path}`),
  },
  { title: "Error", kind: "code", by: "error", cell: (one) => one.error ?? "–" },
  {
    title: "Request id",
    kind: "minor",
    cell: (one) => shortId(one.requestId, "id of the request"),
  },
];

/** Show the health, updated every few seconds. */
export async function view({ signal }) {
  const body = el("div", { class: "stack" });
  const trouble = el("div");
  const read = async () => {
    const [health, hooks, isReady] = await Promise.all([
      get(HEALTH, { signal }),
      get(HOOKS, { signal }),
      readiness(signal),
    ]);
    fill(trouble);
    draw(body, health, hooks.items, isReady);
  };
  await read();
  const timer = setInterval(async () => {
    try {
      await read();
    } catch (error) {
      if (!signal.aborted) {
        fill(trouble, failure(error));
      }
    }
  }, POLL_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return [heading("Health"), trouble, body];
}

async function readiness(signal) {
  const response = await fetch("/readyz", { cache: "no-store", credentials: "omit", signal });
  return response.ok;
}

function draw(body, health, targets, isReady) {
  const { servers } = health;
  const move = button("Move all tenants…", () => moveAll(servers));
  const silent = health.workers.filter((one) => !one.isAlive);
  fill(
    body,
    facts({
      Readiness: isReady ? badge("head", "ready") : badge("failed", "not ready"),
      Release: health.release,
      Workers: `${health.workers.length - silent.length} alive`,
    }),
    section(
      "Workers",
      {},
      table("Workers", WORKERS, health.workers, "No worker has a heartbeat: runs do not start."),
      silent.length > 0 && el("p", { class: "hint" }, MISSING),
    ),
    section(
      "Tenant servers",
      { actions: servers.length > 1 && !isFleet && move },
      table("Tenant servers", SERVERS, servers, "None."),
    ),
    section(
      "Notifications",
      {},
      table("Notifications", TARGETS, targets, "TENANTRY_HOOKS has no targets."),
    ),
    section(
      "Recent errors",
      {},
      table("Recent errors", ERRORS, health.errors, "The answering process has had no errors."),
    ),
  );
}
