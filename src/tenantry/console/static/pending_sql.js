// The SQL of the pending revisions of a plan, as a run would send it.

import { el } from "./dom.js";
import { count, plural } from "./format.js";
import { icon } from "./icons.js";

const REASONS = {
  live: "Runs live: its statements depend on the database, so they are known only when it runs.",
  autocommit: "Runs outside a transaction: a failure leaves what was committed before.",
};

/** A folded entry for each revision; the only one is open. */
export function pendingSql(revisions) {
  const engines = new Set(revisions.map((one) => one.engine));
  return revisions.map((one) =>
    el(
      "details",
      { class: "panel fold", open: revisions.length === 1 },
      el(
        "summary",
        {},
        el("span", { class: "code" }, one.revision),
        el("span", { class: "hint" }, [engines.size > 1 && `${one.engine} · `, one.runsAs]),
        one.findings.length > 0 && warning(plural(one.findings.length, "warning")),
        one.sql !== null && el("span", { class: "unfold" }),
      ),
      one.findings.length > 0 && findingsOf(one),
      one.lost?.length > 0 && lossesOf(one), // earlier releases have none
      one.sql === null
        ? el(
            "p",
            { class: "hint" },
            REASONS[one.runsAs],
            one.liveReason && ` It ${one.liveReason}.`,
          )
        : el(
            "pre",
            { class: "code", tabindex: "0", "aria-label": `SQL of ${one.revision}` },
            one.sql || "-- nothing on this engine",
            one.isCut && "\n-- … The rest of this long text is not shown.",
          ),
    ),
  );
}

/** What its statements can cause; a revision with such statements can still be right. */
function findingsOf({ revision, findings }) {
  return el(
    "ul",
    { class: "findings", "aria-label": `Warnings about ${revision}` },
    findings.map((one) =>
      el("li", {}, warning(`Statement ${count(one.statementNumber)}`), " ", one.message),
    ),
  );
}

/** What the tenants lose when the revision is undone. */
function lossesOf({ revision, lost }) {
  return el(
    "ul",
    { class: "findings", "aria-label": `Lost by undoing ${revision}` },
    lost.map(({ table, column, count: number, isMore, customerCount }) =>
      el(
        "li",
        {},
        warning("Lost"),
        ` ${column === null ? `table ${table}` : `column ${column} of ${table}`}: `,
        `${isMore ? "more than " : ""}${plural(number, column === null ? "row" : "value")} `,
        `in ${plural(customerCount, "tenant")}`,
      ),
    ),
  );
}

function warning(text) {
  return el("span", { class: "badge warning is-behind" }, icon("warning"), text);
}
