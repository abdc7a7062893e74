// The fields of the form that plans a run, and the request that they make.

import { el } from "./dom.js";
import { choices, field, input, radios, select } from "./forms.js";
import { isFleet, plural } from "./format.js";
import { chosenBy } from "./where.js";
import { isName, parseSize, parseWaves } from "./words.js";

const CANARY = "1\n10%\n100%";
// The values are JSON.
const HOLDS = [
  ["", "Start the next one"],
  ["true", "Hold until a person continues the run"],
  ['"check"', "Hold until the check of the operator succeeds"],
];
const WAVES_HINT =
  "One on each line: the total number of tenants started up to this wave, such as 10 or 25%. " +
  "The first ones can select their tenants: canary=yes, plan in (free, trial).";
const RATE_HINT =
  "After a wave, the run holds when more of the answers to its tenants are errors (5xx) than " +
  "before the run, by this percentage. Empty: errors are not compared.";
const BUDGET_HINT = "When more tenants have failed, no more are started. Empty: no limit.";

/**
 * The fields of a run.
 *
 * @param {URLSearchParams} query Of the address.
 * @param {HTMLElement|false} where The field for an expression; false if it cannot be chosen.
 * @param {boolean} isUndo
 * @returns {{fields: HTMLElement[], show: (preset: string) => void}} `show` leaves out the fields
 *   that the choice of waves does not need.
 */
export function runFields(query, where, isUndo) {
  const rows = 3;
  const waves = el("textarea", { name: "waves", rows, placeholder: CANARY, spellcheck: "false" });
  const ownWaves = field("Waves", waves, WAVES_HINT);
  const hold = field("After each wave", select("hold", HOLDS));
  const rate = field("Error rate", input("maxErrorRate", { placeholder: "1%" }), RATE_HINT);
  const only = (name) => query.get(name) === "true";
  const behind = "Skip tenants that the catalog shows at the head: their databases are not opened.";
  const rehearse =
    "Rehearse: execute each script and roll it back. This takes the locks of a migration.";
  const fields = [
    where,
    radios("Start", "preset", [
      ["all", "All at once", true],
      ["canary", "Canary: 1, then 10 %, then all", false],
      ["own", "Own waves", false],
    ]),
    ownWaves,
    hold,
    rate,
    field("Failure budget", input("maxFailures", { placeholder: "3 or 5%" }), BUDGET_HINT),
    field("Label", input("label"), "Stored with the run, and shown as its name."),
    !isUndo && choices("Tenants", "onlyBehind", [["true", behind, only("onlyBehind")]]),
    choices("Options", "rehearse", [["true", rehearse, only("rehearse")]]),
  ];
  const show = (preset) => {
    ownWaves.hidden = preset !== "own";
    hold.hidden = preset === "all";
    rate.hidden = isFleet || preset === "all"; // databases get no requests
  };
  return { fields: fields.filter((one) => one !== false), show };
}

function behindOf(data) {
  return data.get("onlyBehind") === "true" ? { onlyBehind: true } : {};
}

/** Return the waves of a form, as a text with one on each line. */
export function wavesOf(data) {
  return { all: "", canary: CANARY, own: data.get("waves") }[data.get("preset")].trim();
}

/** Return the body of the request for a form: the selection, and the options. */
export function bodyOf(selection, data) {
  const wanted = { ...selection, ...behindOf(data) };
  const waves = wavesOf(data);
  if (waves !== "") {
    wanted.waves = parseWaves(waves);
    if (data.get("hold") !== "") {
      wanted.hold = JSON.parse(data.get("hold"));
    }
    if (data.get("maxErrorRate").trim() !== "") {
      wanted.maxErrorRate = data.get("maxErrorRate").replaceAll(/\s/g, "");
    }
    if (wanted.waves.length > 1) {
      wanted.waveMaxFailures = [0];
    }
  }
  if (data.get("maxFailures").trim() !== "") {
    wanted.maxFailures = parseSize(data.get("maxFailures"));
  }
  Object.assign(wanted, chosenBy(data.get("where")));
  if (data.get("label").trim() !== "") {
    wanted.label = data.get("label").trim();
  }
  return wanted;
}

/** A bar with a segment for each wave, and the tenants of each. */
export function waveBars(text, total) {
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
