// The labels of tenants, as chips, and the dialogs that change them.

import { get, send, TENANTS } from "./api.js";
import { ask } from "./dialogs.js";
import { el } from "./dom.js";
import { field } from "./forms.js";
import { plural } from "./format.js";
import { announce } from "./widgets.js";

/** The labels as chips; as links, each leads to the tenants that have it. */
export function chips(labels, { areLinks = false } = {}) {
  const shown = Object.entries(labels).map(([key, value]) => {
    const text = `${key}=${value}`;
    const href = `#/tenants?${new URLSearchParams({ where: text })}`;
    const chip = areLinks ? el("a", { class: "chip", href }, text) : text;
    return el("li", {}, areLinks ? chip : el("span", { class: "chip" }, chip));
  });
  return shown.length === 0 ? "–" : el("ul", { class: "chips" }, shown);
}

/** Ask for all labels of a tenant, and call `change` with the body of the request. */
export async function editLabels(path, change) {
  const { name, labels } = await get(path);
  const lines = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const control = box(lines.join("\n"));
  const hint = "One KEY=VALUE on each line, at most 20. Labels that you remove here are removed.";
  return ask(`Labels of ${name}`, [field("Labels", control, hint)], { action: "Save" }, (data) =>
    change({ labels: after({}, data.get("labels")) }, "The labels were saved."),
  );
}

/** Ask for changes of the labels of several tenants, and make them. */
export function labelMany(ids, done) {
  const hint = "KEY=VALUE sets a label, KEY- removes it. Others stay.";
  const fields = [field("Labels", box(""), hint)];
  const number = plural(ids.length, "tenant");
  return ask(`Label ${number}`, fields, { action: "Label" }, async (data) => {
    after({}, data.get("labels"), true);
    for (const id of ids) {
      const path = `${TENANTS}/${encodeURIComponent(id)}`;
      const { labels } = await get(path);
      await send("PATCH", path, { labels: after(labels, data.get("labels"), true) });
    }
    await done();
    announce(`${number} labelled.`);
  });
}

function box(text) {
  return el("textarea", { name: "labels", class: "code", rows: 4, spellcheck: "false" }, text);
}

/** Return labels after changes: KEY=VALUE, or also KEY- if some can be removed. */
function after(labels, text, canRemove = false) {
  const changed = { ...labels };
  for (const one of text.split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^([^=]*)=(.*)$/.exec(one) ?? [];
    if (key !== undefined) {
      changed[key] = value;
    } else if (canRemove && one.endsWith("-")) {
      delete changed[one.slice(0, -1)];
    } else {
      throw new Error(`\`labels\`: “${one}” must be KEY=VALUE${canRemove ? ", or KEY-" : ""}.`);
    }
  }
  return changed;
}
