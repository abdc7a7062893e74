// Backups, restores, copies, moves and checks as jobs: their progress, and how they end.

import { JOBS, send, TENANTS } from "./api.js";
import { confirm } from "./dialogs.js";
import { el } from "./dom.js";
import { bytes, plural } from "./format.js";
import { listing } from "./listing.js";
import { menu } from "./menu.js";
import { badge } from "./states.js";
import { announce, button, time } from "./widgets.js";

const POLL_MS = 2000;
const CANCEL_TEXT = "The queued backups, restores, copies and moves of all tenants are cancelled.";
const STATES = {
  queued: ["pending", "queued"],
  running: ["running", "running"],
  done: ["success", "done"],
  failed: ["failed", "failed"],
  kept: ["success", "done, old database kept"],
  dropping: ["stopping", "removing"],
};

/**
 * A section with the jobs, of one tenant or of all, updated while the view is shown.
 *
 * @param {{signal: AbortSignal, tenantId?: string|null, ended?: () => any}} options `ended` is
 *   called when a job has ended.
 */
export function jobs({ signal, tenantId = null, ended }) {
  const cancelAll = () =>
    change(`${JOBS}/cancel-queued`, ({ count }) => `${plural(count, "job")} cancelled.`);
  const cancelQueued = button("Cancel queued jobs…", () =>
    confirm("Cancel all queued jobs?", CANCEL_TEXT, "Cancel them", cancelAll),
  );
  cancelQueued.hidden = true;
  const change = async (path, done) => {
    announce(done(await send("POST", path, {})));
    await list.reload();
  };
  let unfinished = 0;
  const loaded = ({ items }) => {
    cancelQueued.hidden = tenantId !== null || !items.some((one) => one.state === "queued");
    const left = items.filter((one) => one.finishedAt === null).length;
    if (left < unfinished) {
      ended?.();
    }
    unfinished = left;
  };
  const columns = [
    { title: "Job", by: "kind", cell: (one) => one.kind },
    { title: "Tenant", kind: "name", by: "tenantName", cell: tenantOf },
    {
      title: "State",
      by: "state",
      cell: (one) => badge(...(STATES[one.state] ?? ["unknown", one.state])),
    },
    { title: "Copied", kind: "number", by: "bytesDone", cell: (one) => copied(one.bytesDone) },
    { title: "Started", kind: "minor", by: "startedAt", cell: (one) => time(one.startedAt) },
    { title: "By", kind: "minor", by: "actor", cell: (one) => one.actor },
    { title: "Result", kind: "wide", by: resultOf, cell: (one) => resultOf(one) ?? "–" },
    { title: "Actions", kind: "actions", cell: (one) => actionsOf(one, change) },
  ];
  const list = listing("Jobs", {
    path: JOBS,
    columns,
    empty: "There are no jobs.",
    signal,
    pageSize: 20,
    query: () => ({ tenantId }),
    loaded,
    actions: [cancelQueued],
  });
  const isOpen = () => document.hidden || document.querySelector(".menu:popover-open") !== null;
  const timer = setInterval(() => isOpen() || list.reload(), POLL_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return list;
}

function resultOf(one) {
  return one.error ?? one.note;
}

function copied(bytesDone) {
  return bytesDone === 0 ? "–" : bytes(bytesDone);
}

function tenantOf(one) {
  if (one.tenantName === null) {
    return { prune: "all archives", drift: "all tenants" }[one.kind] ?? "the catalog";
  }
  const isListed = one.tenantId !== null && one.state !== "failed";
  return isListed ? el("a", { href: `#/tenants/${one.tenantId}` }, one.tenantName) : one.tenantName;
}

function actionsOf(one, change) {
  const what = `Actions for the job of ${one.tenantName ?? "the catalog"} (${one.id})`;
  if (one.state === "queued" || one.state === "running") {
    const cancel = () => change(`${JOBS}/${one.id}/cancel`, () => "The job is being cancelled.");
    return menu(what, [{ text: "Cancel", press: cancel }]);
  }
  if (one.state !== "kept") {
    return null;
  }
  const text = `This removes the data that ${one.tenantName} had before. This cannot be undone.`;
  const path = `${TENANTS}/${one.tenantId}/confirm-restore`;
  const drop = () => change(path, () => "The old database was dropped.");
  const press = () => confirm("Drop the old database?", text, "Drop", drop);
  return menu(what, [{ text: "Drop the old database…", press, kind: "danger" }]);
}
