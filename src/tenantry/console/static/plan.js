// A run, before it is one: which tenants, in which waves, up to how many failures; and what the
// service says would happen. Nothing is changed until the last button is pressed.

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
// What fits into the body of a request, 64 KiB.
const IDS_MAX = 1500;

/** Show the form, and then the plan. */
export async function view({ query, signal }) {
  const selection = await selectionOf(query, signal);
  const waves = input("waves", { placeholder: "1, 10%, 100%" });
  const budget = input("maxFailures", { placeholder: "3 or 5%" });
  const words = el("p", { class: "words", "aria-live": "polite" });
  const result = el("div", { class: "stack", "aria-live": "polite" });
  const fields = [
    el("p", {}, selection.told),
    field(
      "Waves",
      waves,
      "How many tenants may have started when each wave has begun. Empty: all at once.",
    ),
    field(
      "Failure budget",
      budget,
      "When more tenants than this have failed, no other is started. Empty: any number.",
    ),
    words,
    field("Label", input("label"), "For whoever reads the record of the service later."),
    choices("Look closer", "rehearse", [
      [
        "true",
        "Rehearse: run each script and roll it back. It takes the locks of a migration.",
        false,
      ],
    ]),
  ];
  const asked = form(fields, { action: "Show the plan" }, async (data) => {
    const wanted = bodyOf(selection.body, data);
    const rehearse = data.get("rehearse") === "true" ? { rehearse: true } : {};
    fill(result, notice("info", "Looking at the tenants …"));
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
  // A plan that belongs to other answers must not stand beside them.
  asked.addEventListener("input", () => [speak(), fill(result)]);
  speak();
  return [el("h1", {}, "Plan a run"), el("div", { class: "panel" }, asked), result];
}

/** Return which tenants are meant, as the body of a request and in words. */
async function selectionOf(query, signal) {
  const retryOf = query.get("retryOf");
  if (retryOf === null) {
    return { body: {}, told: "All active tenants." };
  }
  const cause = query.get("cause");
  if (cause === null) {
    return { body: { retryOf }, told: "The tenants that failed in the chosen run." };
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
  const told = `The ${tenants} that failed with “${cause}”.${more}`;
  return { body: { tenantIds: ids.slice(0, IDS_MAX) }, told };
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
  const told =
    `${plural(found.pending, "tenant")} of ${count(found.total)} would be migrated, ` +
    `${count(found.upToDate)} are at head already.`;
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
    notice(found.failed > 0 ? "warning" : "info", el("p", {}, told, bad)),
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
    table("The plan", COLUMNS, details.slice(0, ROWS_SHOWN_MAX), "No tenant is meant."),
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
  { title: "Stands at", cell: (one) => one.currentRevision ?? "–" },
  {
    title: "Pending, or the error",
    cell: (one) => one.error ?? one.pendingMigrations?.split(",").join(", ") ?? "–",
  },
];
