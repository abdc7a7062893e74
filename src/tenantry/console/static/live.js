// The progress of a run: a bar, the speed, and a cell for each tenant.

import { el, fill } from "./dom.js";
import { count, duration, localTime, percent, plural } from "./format.js";
import { badge, mark } from "./states.js";
import { announce, notice } from "./widgets.js";

const CELLS_MAX = 1000;
const RATE_OVER_MS = 10_000;
const ANNOUNCED_EVERY_PERCENT = 25;

/**
 * Return the element and its updates: `take` adds a tenant, `update` sets the run, `draw` renders.
 *
 * @param {any} run Its current state.
 */
export function liveProgress(run) {
  const seen = new Map();
  let endings = []; // of the last seconds
  const cells = cellsOf(run.totalCount);
  const bar = el("progress", { max: run.totalCount, "aria-label": "Tenants that have ended" });
  const rate = el("p", { class: "rate" });
  const counts = el("p", { class: "actions" });
  const waiting = el("div");
  let waitedFor = "";
  let now = run;
  let spoken = 0;

  function take(detail) {
    if (!seen.has(detail.customerId)) {
      seen.set(detail.customerId, detail);
      endings.push(Date.parse(detail.finishedAt));
      cells.end(detail);
    }
  }

  function draw() {
    // The counts of the run arrive in batches, after the tenants.
    const failed = Math.max(now.failedCount, cells.failed());
    const ended = Math.max(now.successCount + now.failedCount, seen.size);
    bar.value = ended;
    fill(
      rate,
      `${count(ended)} of ${plural(now.totalCount, "tenant")}, ${percent(ended, now.totalCount)}`,
      speed(ended),
    );
    fill(
      counts,
      badge("success", `${count(ended - failed)} succeeded`),
      badge("failed", `${count(failed)} failed`),
      badge("pending", `${count(now.totalCount - ended)} remaining`),
    );
    drawWaiting();
    speak(ended);
  }

  function drawWaiting() {
    const sentence = (one) => `${one.server} since ${localTime(one.since)}`;
    const text = (now.waitingFor ?? []).map(sentence).join(", ");
    if (text !== waitedFor) {
      waitedFor = text;
      fill(waiting, text !== "" && notice("warning", `Waiting for server ${text}.`));
    }
  }

  function speed(ended) {
    const newest = endings.reduce((one, other) => Math.max(one, other), 0);
    const since = Math.max(newest - RATE_OVER_MS, Date.parse(now.startedAt));
    endings = endings.filter((at) => at > since);
    if (endings.length === 0) {
      return "";
    }
    const perSecond = (1000 * endings.length) / (newest - since);
    const shown = perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
    const left = duration((now.totalCount - ended) / perSecond);
    return `, ${shown} per second, about ${left} left`;
  }

  function speak(ended) {
    const percents = (100 * ended) / Math.max(1, now.totalCount);
    const reached = Math.floor(percents / ANNOUNCED_EVERY_PERCENT);
    if (reached > spoken) {
      spoken = reached;
      announce(`${reached * ANNOUNCED_EVERY_PERCENT} percent of the tenants have ended.`);
    }
  }

  const element = el("div", { class: "panel stack" }, bar, rate, waiting, counts, cells.element);
  const update = (changed) => {
    now = changed;
  };
  draw();
  return { element, take, update, draw };
}

/** A cell for each tenant, or for several if there are many; cells fill when tenants end. */
function cellsOf(total) {
  const each = Math.ceil(total / CELLS_MAX) || 1;
  const empty = () => el("span", { class: "cell" });
  const cells = Array.from({ length: Math.ceil(total / each) }, empty);
  const hint = each === 1 ? "" : `Each cell represents ${count(each)} tenants. `;
  let ended = 0;
  let failed = 0;

  function end(detail) {
    const cell = cells[Math.floor(ended / each)];
    ended += 1;
    if (detail.status === "Failed") {
      failed += 1;
      cell.className = "cell is-failed";
      cell.title = `${detail.customerName}: ${detail.errorMessage}`;
      fill(cell, mark("failed"));
    } else if (!cell.classList.contains("is-failed") && (ended % each === 0 || ended === total)) {
      cell.className = "cell is-success";
      cell.title = each === 1 ? detail.customerName : "";
    }
  }

  const map = el(
    "div",
    { class: "cells", role: "img", "aria-label": "Tenants in the order in which they end" },
    cells,
  );
  const meaning = "Filled: succeeded. Crossed: failed. Empty: remaining.";
  const legend = el("p", { class: "hint" }, hint, meaning);
  return { element: [map, legend], end, failed: () => failed };
}
