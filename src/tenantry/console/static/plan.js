// The form that plans a run, with a dry run. Nothing is changed until the last button is pressed.

import { get, MIGRATE_ALL, PLANS, send } from "./api.js";
import { el, fill } from "./dom.js";
import { plural } from "./format.js";
import { choices, field, form, input, radios, select } from "./forms.js";
import { planned, storedPlan } from "./planned.js";
import { runChanges, unfinishedRuns } from "./run_bar.js";
import { selectionOf } from "./selection.js";
import { notice, section, speak, tenantLink } from "./widgets.js";
import { budgetInWords, isName, parseSize, parseWaves, summaryOf, wavesInWords } from "./words.js";

const CANARY = "1, 10%, 100%";
// The values are JSON.
const HOLDS = [
  ["", "Start the next one"],
  ["true", "Hold until a person continues the run"],
  ['"check"', "Hold until the check of the operator succeeds"],
];

/** Show the form, and then the plan. */
export async function view({ query, signal }) {
  const stored = query.get("plan");
  if (stored !== null) {
    const plan = await get(`${PLANS}/${encodeURIComponent(stored)}`, { signal });
    return [el("h1", {}, plan.label ?? "A stored plan"), storedPlan(plan)];
  }
  const selection = await selectionOf(query, signal);
  if (selection.obstacle) {
    const back = tenantLink(query.get("tenant"), "Show the tenant");
    return [el("h1", {}, "Plan a run"), notice("warning", el("p", {}, selection.obstacle), back)];
  }
  const waves = input("waves", { placeholder: CANARY });
  const ownWaves = field(
    "Waves",
    waves,
    "The total number of tenants started in each wave. The first ones can name their tenants: " +
      "server=eu, name=Acme.",
  );
  const hold = field("After each wave", select("hold", HOLDS));
  const budget = input("maxFailures", { placeholder: "3 or 5%" });
  const words = el("p", { class: "words" });
  const preview = el("div", { class: "waves", "aria-hidden": "true" });
  const result = el("div", { class: "stack" });
  const onlyBehind = choices("Tenants", "onlyBehind", [
    [
      "true",
      "Skip tenants that the catalog shows at the head: their databases are not opened.",
      query.get("onlyBehind") === "true",
    ],
  ]);
  const fields = [
    radios("Start", "preset", [
      ["all", "All at once", true],
      ["canary", "Canary: 1, then 10 %, then all", false],
      ["own", "Own waves", false],
    ]),
    ownWaves,
    hold,
    field(
      "Failure budget",
      budget,
      "When more tenants have failed, no more are started. Empty: no limit.",
    ),
    field("Label", input("label"), "Stored with the run, and shown as its name."),
    ...(selection.path === undefined ? [onlyBehind] : []),
    choices("Options", "rehearse", [
      [
        "true",
        "Rehearse: execute each script and roll it back. This takes the locks of a migration.",
        query.get("rehearse") === "true",
      ],
    ]),
  ];
  // A plan is of one state of the form: an edit cancels the request, and discards its answer.
  let asking = new AbortController();
  const planForm = form(fields, { action: "Show the plan" }, async (data) => {
    const ours = asking;
    const wanted = bodyOf(selection.body, data);
    const rehearse = data.get("rehearse") === "true" ? { rehearse: true } : {};
    fill(result, el("p", { class: "notice is-info" }, "Reading the tenants…"));
    try {
      const until = { signal: AbortSignal.any([signal, ours.signal]) };
      const body = { ...wanted, dryRun: true, ...rehearse };
      const found = await send("POST", selection.path ?? MIGRATE_ALL, body, until);
      const plan = found.plan && (await get(`${PLANS}/${found.plan.id}?details=none`, until));
      if (!ours.signal.aborted) {
        fill(result, planned(found, plan, wanted));
        speak(summaryOf(found, plan));
        result.scrollIntoView({ block: "nearest" });
      }
    } catch (error) {
      fill(result);
      throw error;
    }
  });
  const describe = () => {
    const data = new FormData(planForm);
    const wanted = wavesOf(data);
    ownWaves.hidden = data.get("preset") !== "own";
    hold.hidden = data.get("preset") === "all";
    const canary = wanted.includes(",") && "A failure in the first wave stops the run.";
    const inWords = [wavesInWords(wanted, selection.total), canary, budgetInWords(budget.value)];
    fill(words, inWords.filter(Boolean).join(" "));
    fill(preview, waveBars(wanted, selection.total));
  };
  planForm.addEventListener("input", () => {
    asking.abort();
    asking = new AbortController();
    fill(result);
    describe();
  });
  describe();
  const running = el("div");
  const warn = () => fill(running, runningNotice());
  runChanges.addEventListener("change", warn, { signal });
  warn();
  return [
    el("h1", {}, selection.path === undefined ? "Plan a run" : "Undo a run"),
    running,
    el(
      "div",
      { class: "plan-top" },
      el("div", { class: "panel" }, planForm),
      section("This run", {}, el("p", {}, selection.description), preview, words),
    ),
    result,
  ];
}

function runningNotice() {
  const runs = unfinishedRuns();
  return (
    runs.length > 0 &&
    notice(
      "warning",
      el(
        "p",
        {},
        `${plural(runs.length, "run")} ${runs.length === 1 ? "is" : "are"} not finished. `,
        "A new run shares the workers with it; a tenant in both waits for the first one. ",
        el("a", { href: `#/runs/${runs[0].id}` }, "Show the run"),
      ),
    )
  );
}

function behindOf(data) {
  return data.get("onlyBehind") === "true" ? { onlyBehind: true } : {};
}

function wavesOf(data) {
  return { all: "", canary: CANARY, own: data.get("waves") }[data.get("preset")].trim();
}

function bodyOf(selection, data) {
  const wanted = { ...selection, ...behindOf(data) };
  const waves = wavesOf(data);
  if (waves !== "") {
    wanted.waves = parseWaves(waves);
    if (data.get("hold") !== "") {
      wanted.hold = JSON.parse(data.get("hold"));
    }
    if (wanted.waves.length > 1) {
      wanted.waveMaxFailures = [0];
    }
  }
  if (data.get("maxFailures").trim() !== "") {
    wanted.maxFailures = parseSize(data.get("maxFailures"));
  }
  if (data.get("label").trim() !== "") {
    wanted.label = data.get("label").trim();
  }
  return wanted;
}

/** A bar with a segment for each wave, and the tenants of each. */
function waveBars(text, total) {
  try {
    const sizes = parseWaves(text.trim() === "" ? "100%" : text);
    if (sizes.some(isName)) {
      return null; // only the catalog knows how many tenants these are
    }
    const most = sizes.map((size) =>
      typeof size === "number"
        ? Math.min(size, total)
        : Math.ceil((total * Number.parseInt(size, 10)) / 100),
    );
    const waves = most.map((size, index) => Math.max(0, size - (most[index - 1] ?? 0)));
    const bar = waves.map((size) => el("span", { style: { "flex-grow": size } }));
    return [
      el("div", { class: "shares is-running" }, bar),
      waves.map((size, index) =>
        el("p", {}, el("strong", {}, `Wave ${index + 1}`), plural(size, "tenant")),
      ),
    ];
  } catch {
    return null;
  }
}
