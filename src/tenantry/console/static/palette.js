// The command palette: pages, actions, tenants and runs.

import { get, RUNS, latestOf, TENANTS } from "./api.js";
import { dialog } from "./dialogs.js";
import { all, el, fill, onPause } from "./dom.js";
import { isFleet, localTime, TENANT } from "./format.js";

const FOUND_MAX = 8;
const ACTIONS = [
  ["Plan a run", "#/runs/plan"],
  ["New tenant", "#/tenants/new"],
].filter(([, href]) => !isFleet || href === "#/runs/plan");

/** Show the palette; a choice goes to its address. */
export function view(pages, { go, signal }) {
  const fixed = [...pages.map(([text, href]) => [text, href]), ...ACTIONS];
  dialog("Search", (close) => {
    const query = el("input", {
      type: "search",
      role: "combobox",
      "aria-label": "Search pages, tenants and runs",
      "aria-expanded": "true",
      "aria-controls": "palette-results",
      placeholder: "Tenant, run or page",
      autocomplete: "off",
    });
    const results = el("ul", { id: "palette-results", role: "listbox", "aria-label": "Results" });
    const next = latestOf(signal);
    let entries = [];
    let chosen = 0;

    function draw() {
      fill(
        results,
        entries.map(([text, href, kind = "Page"], index) =>
          el(
            "li",
            {
              role: "option",
              id: `palette-${index}`,
              "aria-selected": String(index === chosen),
              onclick: () => open(href),
            },
            el("span", { class: "cut" }, text),
            el("span", { class: "hint" }, kind),
          ),
        ),
        entries.length === 0 && el("li", { class: "hint" }, "Nothing matches."),
      );
      query.setAttribute("aria-activedescendant", `palette-${chosen}`);
      all("[aria-selected=true]", results)[0]?.scrollIntoView({ block: "nearest" });
    }

    function open(href) {
      close();
      if (href.startsWith("#")) {
        go(href.slice(1));
      } else {
        location.href = href;
      }
    }

    async function search() {
      const text = query.value.trim().toLowerCase();
      const matches = fixed.filter(([name]) => name.toLowerCase().includes(text));
      entries = matches;
      chosen = 0;
      draw();
      const ours = next();
      if (text === "") {
        return;
      }
      try {
        const [tenants, runs] = await Promise.all([
          get(TENANTS, { query: { search: text, pageSize: FOUND_MAX }, signal: ours }),
          get(RUNS, { query: { pageSize: 50 }, signal: ours }),
        ]);
        const found = runs.items.filter((run) =>
          `${run.label} ${run.id}`.toLowerCase().includes(text),
        );
        entries = [
          ...matches,
          ...tenants.items.map((one) => [one.name, `#/tenants/${one.id}`, TENANT]),
          ...found
            .slice(0, FOUND_MAX)
            .map((run) => [run.label ?? localTime(run.startedAt), `#/runs/${run.id}`, "Run"]),
        ];
        draw();
      } catch {
        // The pages that matched stay.
      }
    }

    onPause(query, search);
    query.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined && entries.length > 0) {
        event.preventDefault();
        chosen = (chosen + step + entries.length) % entries.length;
        draw();
      } else if (event.key === "Enter" && entries.length > 0) {
        event.preventDefault();
        open(entries[chosen][1]);
      }
    });
    search();
    const keys = [
      ["↑↓", "choose"],
      ["Enter", "open"],
      ["Esc", "close"],
    ].map(([key, text]) => el("span", {}, el("kbd", {}, key), ` ${text}`));
    const help = el("p", { class: "hint keys", "aria-hidden": "true" }, keys);
    return el("div", { class: "palette" }, query, results, help);
  });
}
