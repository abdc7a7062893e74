// The form that plans a run, with a dry run. Nothing is changed until the last button is pressed.

import { get, MIGRATE_ALL, PLANS, send } from "./api.js";
import { el, fill } from "./dom.js";
import { plural } from "./format.js";
import { form } from "./forms.js";
import { planned, storedPlan } from "./planned.js";
import { bodyOf, runFields, waveBars, wavesOf } from "./run_form.js";
import { runChanges, unfinishedRuns } from "./run_bar.js";
import { keepEntries } from "./scroll.js";
import { selectionOf, targetOf } from "./selection.js";
import { notice, section, speak, tenantLink } from "./widgets.js";
import { budgetInWords, summaryOf, wavesInWords } from "./words.js";

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
  const words = el("p", { class: "words" });
  const preview = el("div", { class: "waves", "aria-hidden": "true" });
  const result = el("div", { class: "stack" });
  const isUndo = selection.path !== undefined;
  const target = targetOf(selection, query, signal, () => describe());
  const { fields, show } = runFields(query, target.field, isUndo);
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
    const total = target.total();
    show(String(data.get("preset")));
    const canary = wanted.includes("\n") && "A failure in the first wave stops the run.";
    const budget = budgetInWords(String(data.get("maxFailures")));
    fill(words, [wavesInWords(wanted, total), canary, budget].filter(Boolean).join(" "));
    fill(preview, total !== null && waveBars(wanted, total));
  };
  keepEntries(planForm);
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
    el("h1", {}, isUndo ? "Undo a run" : "Plan a run"),
    running,
    el(
      "div",
      { class: "plan-top" },
      el("div", { class: "panel" }, planForm),
      section("This run", {}, target.description, preview, words),
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
