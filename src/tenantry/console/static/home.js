// What an operator looks at first: what is pending, the last run, failures, backups and workers.

import { BACKUPS, get } from "./api.js";
import { el, fill } from "./dom.js";
import { count, isFleet, localTime, plural, TENANT } from "./format.js";
import { lastRun, runChanges, serviceHealth } from "./run_bar.js";
import { badge } from "./states.js";
import { hint, linkButton, tenantLink, time } from "./widgets.js";

const CAUSES_SHOWN_MAX = 3;
const BACKUPS_EVERY_MS = 60_000;

/** The panels above the map: `draw` takes the totals and the tenants of the map. */
export function homePanels(signal) {
  const element = el("div", { class: "home", role: "region", "aria-label": "Now" });
  let backups = /** @type {any} */ (null);
  let now = /** @type {any} */ (null);
  let tenants = /** @type {any[]} */ ([]);

  async function readBackups() {
    try {
      backups = await get(BACKUPS, { signal });
      redraw();
    } catch {
      // The panel then says nothing about backups.
    }
  }

  function redraw() {
    if (now !== null) {
      fill(element, [pending(now), last(), failures(now, tenants), backup(backups), workers()]);
    }
  }

  if (!isFleet) {
    readBackups();
    const timer = setInterval(readBackups, BACKUPS_EVERY_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
  runChanges.addEventListener("change", redraw, { signal });
  return {
    element,
    draw(status, shown) {
      now = status;
      tenants = shown;
      redraw();
    },
  };
}

function panel(title, ...children) {
  return el("section", { class: "panel", "aria-label": title }, el("h2", {}, title), children);
}

function pending({ behind, unknown, total, upToDate }) {
  const left = behind + unknown;
  return panel(
    "Pending",
    left === 0
      ? el("p", {}, badge("head", `Every active tenant is at the head: ${count(upToDate)}.`))
      : [
          el(
            "p",
            {},
            badge("behind", `${count(left)} of ${plural(total, "tenant")} not at the head`),
          ),
          linkButton("#/runs/plan?onlyBehind=true", "Plan for these"),
        ],
  );
}

function last() {
  const run = lastRun();
  if (run === null) {
    return panel("Last run", hint("There are no runs yet."));
  }
  const failed = run.failedCount - run.notAttemptedCount;
  const counts = [
    `${count(run.successCount)} succeeded`,
    `${count(failed)} failed`,
    run.notAttemptedCount > 0 && `${count(run.notAttemptedCount)} not attempted`,
    run.finishedAt === null && `${count(run.totalCount - run.successCount - run.failedCount)} left`,
  ];
  return panel(
    "Last run",
    el(
      "p",
      {},
      el("a", { href: `#/runs/${run.id}` }, run.label ?? `Run of ${localTime(run.startedAt)}`),
      " ",
      badge(run.state),
    ),
    hint(`Of ${plural(run.totalCount, "tenant")}: `, counts.filter(Boolean).join(", "), "."),
  );
}

/** The causes of what is failing now, by the run in which it failed last. */
function failures({ failing }, tenants) {
  const groups = new Map();
  for (const one of tenants) {
    if (one.failingRunId !== null && one.isActive && !one.isReadOnly) {
      const key = `${one.failingRunId} ${one.cause}`;
      const group = groups.get(key) ?? { cause: one.cause, run: one.failingRunId, count: 0 };
      group.count += 1;
      groups.set(key, group);
    }
  }
  const largest = [...groups.values()].sort((one, other) => other.count - one.count);
  const others = largest.length - CAUSES_SHOWN_MAX;
  return panel(
    "Failing",
    failing === 0
      ? hint(`No ${TENANT.toLowerCase()} failed in its latest attempt.`)
      : el("p", {}, badge("failing", plural(failing, "tenant"))),
    el(
      "ul",
      { class: "home-causes", "aria-label": "Causes of failures" },
      largest.slice(0, CAUSES_SHOWN_MAX).map((one) => causeOf(one)),
    ),
    others > 0 &&
      el("a", { href: "#/tenants?isFailing=true" }, `All failing tenants: ${count(failing)}`),
  );
}

function causeOf({ cause, run, count: number }) {
  const retry = `#/runs/plan?${new URLSearchParams({ retryOf: run, cause: cause ?? "" })}`;
  const link = linkButton(retry, "Plan retry");
  link.setAttribute("aria-label", `Plan retry: ${cause}`);
  return el(
    "li",
    {},
    el("span", { class: "code cause-text", title: cause }, `${count(number)} × ${cause}`),
    link,
  );
}

function backup(found) {
  const title = "Oldest backup";
  if (found === null) {
    return !isFleet && panel(title, hint("Not known."));
  }
  const { oldestAt, oldestCustomerId, oldestCustomerName, withoutCount } = found;
  return panel(
    title,
    oldestAt === null
      ? hint("No tenant was backed up in the last 90 days.")
      : el("p", {}, time(oldestAt), ": ", tenantLink(oldestCustomerId, oldestCustomerName)),
    oldestAt !== null &&
      withoutCount > 0 &&
      el("p", {}, badge("unknown", `${plural(withoutCount, "tenant")} without a backup`)),
    el("a", { href: "#/backups" }, "Backups"),
  );
}

function workers() {
  const found = serviceHealth()?.workers ?? [];
  const silent = found.filter((one) => !one.isAlive);
  const alive = plural(found.length - silent.length, "worker");
  return panel(
    "Workers",
    el("p", {}, badge("head", `${alive} alive`)),
    el(
      "ul",
      { class: "home-causes", "aria-label": "Silent workers" },
      silent.map((one) =>
        el(
          "li",
          {},
          badge("failed", "silent"),
          el("span", {}, one.program || "unknown", ", last heard ", time(one.seenAt)),
          one.abandonedCount > 0 &&
            el("span", {}, `${plural(one.abandonedCount, "tenant")} abandoned`),
        ),
      ),
    ),
    el("a", { href: "#/health" }, "Health"),
  );
}
