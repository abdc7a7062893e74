// Forms: labelled fields, an error below the field it concerns, and no double submission.

import { all, el, fill } from "./dom.js";
import { button, notice } from "./widgets.js";

// The codes of errors that concern a member without naming it, such as `tenant_name_in_use`.
const CODE = /(name|email|labels)(?:_in_use)?$/;

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

/** A field for a password that is chosen now. */
export function newPassword(label) {
  return field(
    label,
    input("password", { type: "password", required: true, autocomplete: "new-password" }),
    "Short and common passwords are rejected.",
  );
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

/** A choice of one of a few; `options` are triples of a value, a text, and whether it is chosen. */
export function radios(legend, name, options) {
  return el(
    "fieldset",
    { class: "segments" },
    el("legend", {}, legend),
    el(
      "div",
      { class: "segment-row" },
      options.map(([value, text, checked]) =>
        el("label", {}, el("input", { type: "radio", name, value, checked }), el("span", {}, text)),
      ),
    ),
  );
}

/**
 * A form that is sent once at a time. An error is shown above its button, and tied to the field
 * that it names.
 *
 * @param {HTMLElement[]} fields
 * @param {{action: string, cancel?: () => void, kind?: string}} buttons The text of
 *   the button, and the action of a second one.
 * @param {(data: FormData) => any} submit
 */
export function form(fields, { action, cancel, kind = "primary" }, submit) {
  const problem = el("div", { class: "problem" });
  const submitter = el("button", { class: kind, type: "submit" }, action);
  const canceller = cancel && button("Cancel", cancel);
  if (canceller && kind === "danger") {
    canceller.setAttribute("autofocus", "");
  }
  const made = el(
    "form",
    { autocomplete: "off", novalidate: true },
    fields,
    problem,
    el("div", { class: "actions" }, canceller, submitter),
  );
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submitter.hasAttribute("aria-busy") || !isComplete(made, problem)) {
      return;
    }
    // A disabled button would lose the focus.
    submitter.setAttribute("aria-busy", "true");
    fill(problem);
    clear(made);
    try {
      await submit(new FormData(made));
    } catch (error) {
      if (error.name !== "AbortError") {
        show(error, made, problem);
      }
    }
    submitter.removeAttribute("aria-busy");
  });
  return made;
}

/** Check the required fields; show the first problem and focus its field. */
function isComplete(made, problem) {
  fill(problem);
  clear(made);
  const control = controlsOf(made).find((one) => !one.checkValidity());
  if (control === undefined) {
    return true;
  }
  const label = labelOf(control);
  const text = control.validity.valueMissing ? `${label} is required.` : control.validationMessage;
  mark(control, text, problem);
  return false;
}

/** Show an error; one that concerns a member of the request is shown with its field. */
function show({ message, code = "" }, made, problem) {
  const named = /^`(\w+)`/.exec(message)?.[1] ?? /at `\$\.([\w.]+)`/.exec(message)?.[1];
  const name = named?.split(".").at(-1) ?? CODE.exec(code)?.[1];
  const control = controlsOf(made).find((one) => one.name === name);
  if (control === undefined) {
    fill(problem, notice("bad", message));
    return;
  }
  mark(control, message.replace(/^`\w+`/, labelOf(control)), problem);
}

/** Show a text below a control, or below all if it is not in a field, and focus the control. */
function mark(control, text, problem) {
  lastId += 1;
  const id = `problem-${lastId}`;
  const place = control.closest(".field") ?? problem;
  if (control.hasAttribute("aria-invalid")) {
    clear(place);
  }
  place.append(el("p", { id, class: "alarm", role: "alert" }, text));
  const described = control.getAttribute("aria-describedby") ?? "";
  control.dataset.described = described;
  control.setAttribute("aria-describedby", `${described} ${id}`.trim());
  control.setAttribute("aria-invalid", "true");
  control.focus();
}

/** Show below a control, in its field, what is wrong with it; null removes that. */
export function explain(control, text) {
  const place = control.closest(".field");
  clear(place);
  if (text !== null) {
    mark(control, text.replace(/^`\w+`/, labelOf(control)), place);
  }
}

function clear(made) {
  for (const shown of all(".alarm", made)) {
    shown.remove();
  }
  for (const control of all("[aria-invalid]", made)) {
    control.removeAttribute("aria-invalid");
    control.setAttribute("aria-describedby", control.dataset.described ?? "");
  }
}

function controlsOf(made) {
  return [...made.elements].filter((one) => one.name);
}

function labelOf(control) {
  return control.labels?.[0]?.textContent ?? control.name;
}
