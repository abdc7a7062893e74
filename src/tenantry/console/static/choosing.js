// Choose rows of a table, and do something with all of them.

import { el, fill } from "./dom.js";
import { plural } from "./format.js";
import { button } from "./widgets.js";

/**
 * A choice of rows, for the option `choice` of a table: it outlives its pages.
 *
 * @param {{noun: string, keyOf: (row: any) => string, nameOf: (row: any) => string,
 *   actions: [string, (keys: string[]) => any][],
 *   every?: () => Promise<any[]>}} options The actions by their texts; `every` returns all rows.
 * @returns {{bar: HTMLElement, column: (rows: any[]) => any, clear: () => void}}
 */
export function chooser({ noun, keyOf, nameOf, actions, every }) {
  const chosen = /** @type {Set<string>} */ (new Set());
  const bar = el("div", { class: "chosen", role: "region", "aria-label": `Chosen ${noun}s` });
  let boxes = /** @type {[string, HTMLInputElement][]} */ ([]);
  let all = box("Choose all rows of this page", () => {});

  function box(label, choose) {
    const made = el("input", { type: "checkbox", "aria-label": label });
    made.addEventListener("change", () => choose(made.checked));
    return made;
  }

  function set(keys, isChosen) {
    for (const key of keys) {
      isChosen ? chosen.add(key) : chosen.delete(key);
    }
    draw();
  }

  function draw() {
    for (const [key, one] of boxes) {
      one.checked = chosen.has(key);
    }
    const here = boxes.filter(([key]) => chosen.has(key)).length;
    all.checked = here > 0 && here === boxes.length;
    all.indeterminate = here > 0 && here < boxes.length;
    bar.hidden = chosen.size === 0;
    const more = every;
    fill(
      bar,
      el("strong", { role: "status" }, `${plural(chosen.size, noun)} chosen`),
      actions.map(([text, act]) => button(text, () => act([...chosen]))),
      more && button("Choose all that match", async () => set((await more()).map(keyOf), true)),
      button("Clear", clear, { kind: "quiet" }),
    );
  }

  function clear() {
    chosen.clear();
    draw();
  }

  function column(rows) {
    boxes = [];
    all = box("Choose all rows of this page", (isChosen) => set(rows.map(keyOf), isChosen));
    const cell = (row) => {
      const key = keyOf(row);
      const made = box(`Choose ${nameOf(row)}`, (isChosen) => set([key], isChosen));
      boxes.push([key, made]);
      return made;
    };
    queueMicrotask(draw); // when the cells are made
    return { title: "Choose", kind: "choose", head: all, cell };
  }

  draw();
  return { bar, column, clear };
}
