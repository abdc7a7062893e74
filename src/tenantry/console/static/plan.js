// The form that plans a run: its tenants, waves and failure budget, and a dry run of it. Nothing
// is changed until the last button is pressed.

import { get, HISTORY, MIGRATE_ALL, send } from "./api.js";
import { byCause } from "./causes.js";
import { el, fill } from "./dom.js";
import { choices, field, form, input } from "./forms.js";
import { count, plural } from "./format.js";
import { go } from "./router.js";
import { badge } from "./states.js";
import { button, notice, section, table } from "./widgets.js";
import { budgetInWords, parseSize, parseSizes, wavesInWords } from "./words.js";

const ROWS_SHOWN_MAX = 100;
// The ids that fit into a request body of 64 KiB.
const IDS_MAX = 1500;

/** Show the form, and then the plan. */
export async function view({ query, signal }) {
  const selection = await selectionOf(query, signal);
  const waves = input("waves", { placeholder: "1, 10%, 100%" });
  const budget = input("maxFailures", { placeholder: "3 or 5%" });
  const words = el("p", { class: "words", "aria-live": "polite" });
  const result = el("div", { class: "stack", "aria-live": "polite" });
  const fields = [
    el("p", {}, selection.description),
    field("Waves", waves, "The total number of tenants started in each wave. Empty: all at once."),
    field(
      "Failure budget",
      budget,
      "When more tenants have failed, no more are started. Empty: no limit.",
    ),
    words,
    field("Label", input("label"), "Stored with the run."),
    choices("Options", "rehearse", [
      [
        "true",
        "Rehearse: execute each script and roll it back. This takes the locks of a migration.",
        false,
      ],
    ]),
  ];
  const planForm = form(fields, { action: "Show the plan" }, async (data) => {
    const wanted = bodyOf(selection.body, data);
    const rehearse = data.get("rehearse") === "true" ? { rehearse: true } : {};
    fill(result, notice("info", "Reading the tenants…"));
    try {
      const found = await send(
        "POST",
        MIGRATE_ALL,
        { ...selection.body, dryRun: true, ...rehearse },
        { signal },
      );
      fill(result, planned(found, wanted));
      result.scrollIntoView({ block: "start" });
    } catch (error) {
      fill(result);
      throw error;
    }
  });
  const speak = () =>
    fill(words, [wavesInWords(waves.value), budgetInWords(budget.value)].join(" "));
  // A changed form invalidates the shown plan.
  planForm.addEventListener("input", () => [speak(), fill(result)]);
  speak();
  return [el("h1", {}, "Plan a run"), el("div", { class: "panel" }, planForm), result];
}

/** Return the selected tenants, as the body of a request and as a description. */
async function selectionOf(query, signal) {
  const retryOf = query.get("retryOf");
  if (retryOf === null) {
    return { body: {}, description: "All active tenants." };
  }
  const cause = query.get("cause");
  if (cause === null) {
    return { body: { retryOf }, description: "The tenants that failed in the chosen run." };
  }
  const path = `${HISTORY}/${encodeURIComponent(retryOf)}`;
  const [run, causes] = await Promise.all([
    get(path, { query: { details: "failed" }, signal }),
    get(`${path}/failure-causes`, { signal }),
  ]);
  const group = byCause(causes.items, run.details).find((one) => one.cause === cause);
  const ids = (group?.details ?? []).map((detail) => detail.customerId);
  const more = ids.length > IDS_MAX ? ` These are the first ${count(IDS_MAX)} of them.` : "";
  const tenants = plural(Math.min(ids.length, IDS_MAX), "tenant");
  const description = `The ${tenants} that failed with “${cause}”.${more}`;
  return { body: { tenantIds: ids.slice(0, IDS_MAX) }, description };
}

function bodyOf(selection, data) {
  const wanted = { ...selection };
  if (data.get("waves").trim() !== "") {
    wanted.waves = parseSizes(data.get("waves"));
  }
  if (data.get("maxFailures").trim() !== "") {
    wanted.maxFailures = parseSize(data.get("maxFailures"));
  }
  if (data.get("label").trim() !== "") {
    wanted.label = data.get("label").trim();
  }
  return wanted;
}

function planned(found, wanted) {
  const summary =
    `${plural(found.pending, "tenant")} of ${count(found.total)} would be migrated, ` +
    `${count(found.upToDate)} are already at head.`;
  const bad = found.failed > 0 && ` ${plural(found.failed, "tenant")} would fail.`;
  const start = async () => {
    const run = await send("POST", MIGRATE_ALL, wanted, { headers: { Prefer: "respond-async" } });
    go(`/runs/${run.id}`);
  };
  const rank = (one) => (one.error !== null ? 0 : one.pendingMigrations === null ? 2 : 1);
  const details = found.details.toSorted((one, other) => rank(one) - rank(other));
  const more = details.length - ROWS_SHOWN_MAX;
  return section(
    "The plan",
    {},
    notice(found.failed > 0 ? "warning" : "info", el("p", {}, summary, bad)),
    el(
      "p",
      {},
      [
        wavesInWords(wanted.waves?.join(",") ?? "", found.total),
        budgetInWords(String(wanted.maxFailures ?? "")),
      ].join(" "),
    ),
    el(
      "div",
      { class: "actions" },
      button(`Migrate ${plural(found.total, "tenant")}`, start, { kind: "primary" }),
    ),
    table("The plan", COLUMNS, details.slice(0, ROWS_SHOWN_MAX), "No tenants are selected."),
    more > 0 && el("p", { class: "hint" }, `And ${plural(more, "more tenant")}.`),
  );
}

const COLUMNS = [
  {
    title: "Tenant",
    cell: (one) => el("a", { href: `#/tenants/${one.customerId}` }, one.customerName),
  },
  {
    title: "State",
    cell: (one) => {
      if (one.error !== null) {
        return badge("failed", "would fail");
      }
      return one.pendingMigrations === null ? badge("head") : badge("behind", "pending");
    },
  },
  { title: "Revision", cell: (one) => one.currentRevision ?? "–" },
  {
    title: "Pending revisions, or error",
    cell: (one) => one.error ?? one.pendingMigrations?.split(",").join(", ") ?? "–",
  },
];
