// Forms and dialogs: labelled fields, one error message, and no double submission.

import { el, fill } from "./dom.js";
import { announce, button, notice } from "./widgets.js";

const COPIED_FOR_MS = 2000;
const ROWS_MAX = 12;
let lastId = 0;

/**
 * A labelled control.
 *
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [hint] Shown below, and announced with the label.
 */
export function field(label, control, hint) {
  lastId += 1;
  control.id = `field-${lastId}`;
  if (hint) {
    control.setAttribute("aria-describedby", `hint-${lastId}`);
  }
  return el(
    "div",
    { class: "field" },
    el("label", { for: control.id }, label),
    control,
    hint && el("p", { class: "hint", id: `hint-${lastId}` }, hint),
  );
}

/** A text control; `attributes` are those of an input. */
export function input(name, attributes = {}) {
  return el("input", { name, type: "text", autocomplete: "off", ...attributes });
}

/** A choice of one; `options` are pairs of a value and its text. */
export function select(name, options, chosen = "") {
  return el(
    "select",
    { name },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
}

/** A choice of any number; `options` are triples of a value, its text, and whether it is chosen. */
export function choices(legend, name, options) {
  return el(
    "fieldset",
    { class: "choices" },
    el("legend", {}, legend),
    options.map(([value, text, checked]) =>
      el("label", {}, el("input", { type: "checkbox", name, value, checked }), text),
    ),
  );
}

/**
 * A form that is disabled while it is sent, and shows errors above its button.
 *
 * @param {HTMLElement[]} fields
 * @param {{action: string, cancel?: () => void, kind?: string}} buttons The text of
 *   the button, and the action of a second one.
 * @param {(data: FormData) => any} submit
 */
export function form(fields, { action, cancel, kind = "primary" }, submit) {
  const problem = el("div", { class: "problem" });
  const submitter = el("button", { class: kind, type: "submit" }, action);
  const made = el(
    "form",
    { autocomplete: "off" },
    fields,
    problem,
    el("div", { class: "actions" }, submitter, cancel && button("Cancel", cancel)),
  );
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    submitter.disabled = true;
    fill(problem);
    try {
      await submit(new FormData(made));
    } catch (error) {
      if (error.name !== "AbortError") {
        fill(problem, notice("bad", error.message));
      }
    }
    submitter.disabled = false;
  });
  return made;
}

/**
 * Show a modal dialog, which restores the focus at its end. Return when it is closed.
 *
 * @param {string} title
 * @param {(close: () => void) => any} content Receives the function that
 *   closes the dialog.
 * @param {{mustBeClosed?: boolean}} [options] Whether Escape does not close it.
 */
export function dialog(title, content, { mustBeClosed = false } = {}) {
  const shown = el("dialog", { "aria-label": title, closedby: mustBeClosed ? "none" : null });
  const close = () => shown.close();
  fill(shown, el("h2", {}, title), content(close));
  // For browsers without support of closedby.
  shown.addEventListener("cancel", (event) => mustBeClosed && event.preventDefault());
  document.body.append(shown);
  shown.showModal();
  return new Promise((resolve) => {
    shown.addEventListener("close", () => {
      shown.remove();
      resolve(undefined);
    });
  });
}

/** Ask for confirmation of an irreversible action, and perform it. */
export function confirm(title, text, action, perform) {
  dialog(title, (close) =>
    form([el("p", {}, text)], { action, cancel: close, kind: "danger" }, async () => {
      await perform();
      close();
    }),
  );
}

/** A read-only control with `text`, and a button that copies it. */
export function copyable(label, text, { hint = "" } = {}) {
  const lines = text.split("\n").length;
  const control =
    lines > 1
      ? el("textarea", { readonly: true, rows: Math.min(ROWS_MAX, lines) }, text)
      : el("input", { readonly: true, value: text });
  control.classList.add("code");
  control.addEventListener("focus", () => control.select());
  const copy = button("Copy", () => copied(copy, control), { label: `Copy: ${label}` });
  const labelled = field(label, control, hint);
  labelled.classList.add("copyable");
  control.after(copy);
  return labelled;
}

/** Show secrets, which are shown only once. Return when the dialog is closed. */
export function showSecrets(title, text, ...children) {
  return dialog(
    title,
    (close) => [
      notice("warning", text),
      children,
      el("div", { class: "actions" }, button("I have copied it", close, { kind: "primary" })),
    ],
    { mustBeClosed: true },
  );
}

async function copied(copy, control) {
  try {
    await navigator.clipboard.writeText(control.value);
  } catch {
    // Without TLS, browsers allow the clipboard only with the keyboard.
    control.focus();
    announce("Press Ctrl+C to copy the selected text.");
    return;
  }
  fill(copy, "Copied");
  announce("Copied.");
  setTimeout(() => fill(copy, "Copy"), COPIED_FOR_MS);
}
