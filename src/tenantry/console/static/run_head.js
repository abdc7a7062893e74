// The head of a run: its state, its facts and its actions.

import { send } from "./api.js";
import { ask, confirm } from "./dialogs.js";
import { el, fill } from "./dom.js";
import { exportRun } from "./export.js";
import { duration, localTime, secondsBetween } from "./format.js";
import { badge } from "./states.js";
import {
  actionRow,
  announce,
  button,
  facts,
  linkButton,
  notice,
  shortId,
  time,
} from "./widgets.js";

/** Draw the head of the page of a run. */
export function drawHead(page) {
  const { run } = page;
  const isRunning = run.finishedAt === null;
  const failed = run.failedCount > 0;
  page.elapsed = el("span", { class: "number" });
  fill(
    page.head,
    el(
      "div",
      { class: "head" },
      el("h1", {}, run.label ?? `Run of ${localTime(run.startedAt)}`),
      badge(run.state),
      actionRow(
        button("Export CSV", () => exportRun(page.run, "csv")),
        button("Export JSON", () => exportRun(page.run, "json")),
        ["running", "holding"].includes(run.state) &&
          button("Cancel the run", () => cancel(page), { kind: "danger" }),
        run.holdingWave !== undefined &&
          button("Continue the run", () => resume(page), { kind: "primary" }),
        !isRunning &&
          failed &&
          linkButton(`#/runs/plan?retryOf=${run.id}`, "Retry all failures", "primary"),
        !isRunning && run.undoes === null && linkButton(`#/runs/plan?undo=${run.id}`, "Undo…"),
      ),
    ),
    facts({
      Started: time(run.startedAt),
      [isRunning ? "Elapsed" : "Took"]: page.elapsed,
      By: run.triggeredBy,
      Head: run.head === null ? undefined : el("span", { class: "code" }, run.head),
      "Retry of":
        run.retryOf === null
          ? undefined
          : el("a", { href: `#/runs/${run.retryOf}` }, "an earlier run"),
      Undoes:
        run.undoes === null
          ? undefined
          : el("a", { href: `#/runs/${run.undoes}` }, "an earlier run"),
      Plan:
        run.planId === null
          ? undefined
          : el("a", { href: `#/runs/plan?plan=${run.planId}` }, "Show this plan"),
      Id: shortId(run.id, "id of the run"),
    }),
    run.heldBecause !== undefined &&
      notice("warning", `The run is holding: no more tenants are started. ${run.heldBecause}`),
    run.stopReason !== null && notice("info", stopText(run)),
  );
  drawElapsed(page);
}

function stopText(run) {
  const reason = run.stopReason.replace(/^not attempted: /, "");
  if (run.state === "cancelling" || run.state === "cancelled") {
    return run.finishedAt === null
      ? "The run is being cancelled: tenants in work finish, the others are not attempted."
      : "The run was cancelled. Tenants that were not attempted are unchanged.";
  }
  return `No more tenants are started: ${reason}.`;
}

/** Update the duration of a run. */
export function drawElapsed({ run, elapsed }) {
  fill(elapsed, duration(secondsBetween(run.startedAt, run.finishedAt)));
}

function resume(page) {
  const wave = page.run.holdingWave;
  return ask(
    "Continue the run?",
    [`Wave ${wave + 1} of ${page.run.waves.length} starts at once.`],
    { action: "Continue the run", kind: "primary" },
    async () => {
      await send("POST", `${page.history}/continue`, { wave });
      announce("The run continues.");
    },
  );
}

function cancel(page) {
  return confirm(
    "Cancel the run?",
    "Tenants in work finish. The others are not attempted, and stay as they are.",
    "Cancel the run",
    async () => {
      await send("POST", `${page.history}/cancel`);
      page.run = { ...page.run, state: "cancelling", stopReason: "not attempted: run cancelled" };
      page.progress.update(page.run);
      drawHead(page);
      announce("The run is being cancelled.");
    },
  );
}
