// Modal dialogs: questions, and secrets that are shown once.

import { all, el, fill, focusLike, signature } from "./dom.js";
import { field, form, input } from "./forms.js";
import { button, copyText, notice } from "./widgets.js";

const ROWS_MAX = 12;

/**
 * Show a modal dialog, which restores the focus at its end. Return when it is closed.
 *
 * @param {string} title
 * @param {(close: () => void) => any} content Receives the function that
 *   closes the dialog.
 * @param {{mustBeClosed?: boolean}} [options] Whether only its own button closes it: not Escape,
 *   not another view, not the end of the session.
 */
export function dialog(title, content, { mustBeClosed = false } = {}) {
  const opener = /** @type {HTMLElement} */ (document.activeElement);
  const places = ancestorsOf(opener);
  const opened = signature(opener);
  const shown = el("dialog", { "aria-label": title, closedby: mustBeClosed ? "none" : null });
  const close = () => shown.close();
  fill(shown, el("h2", {}, title), content(close));
  if (mustBeClosed) {
    shown.dataset.stays = "";
    addEventListener("beforeunload", warn);
    shown.addEventListener("keydown", (event) => event.key === "Escape" && event.preventDefault());
  }
  // For browsers without support of closedby.
  shown.addEventListener("cancel", (event) => mustBeClosed && event.preventDefault());
  document.body.append(shown);
  shown.showModal();
  return new Promise((resolve) => {
    shown.addEventListener("close", () => {
      removeEventListener("beforeunload", warn);
      shown.remove();
      restoreFocus(places, opened);
      resolve(undefined);
    });
  });
}

function ancestorsOf(element) {
  const found = [];
  for (let one = element; one !== null && one !== document.body; one = one.parentElement) {
    found.push(one);
  }
  return found;
}

/** The opener may have been replaced while the dialog was open. */
function restoreFocus(places, opened) {
  const [opener] = places;
  if (opener?.isConnected) {
    opener.focus({ preventScroll: true });
    return;
  }
  const place = places.find((one) => one.isConnected) ?? all("main")[0];
  if (document.activeElement === document.body) {
    focusLike(place, opened);
  }
}

function warn(event) {
  event.preventDefault();
}

/**
 * Show a form in a dialog, which is closed when the form was sent.
 *
 * @param {string} title
 * @param {(HTMLElement|string)[]} fields A text becomes a paragraph.
 * @param {{action: string, kind?: string}} buttons
 * @param {(data: FormData, close: () => void) => any} submit May close the dialog earlier.
 */
export function ask(title, fields, buttons, submit) {
  const shown = fields.map((one) => (typeof one === "string" ? el("p", {}, one) : one));
  return dialog(title, (close) =>
    form(shown, { ...buttons, cancel: close }, async (data) => {
      await submit(data, close);
      close();
    }),
  );
}

/** Ask for confirmation of an irreversible action, and perform it. */
export function confirm(title, text, action, perform) {
  return ask(title, [text], { action, kind: "danger" }, () => perform());
}

/** Ask for the name of a tenant before an irreversible action, and perform it with the name. */
export function confirmByName(title, text, action, perform) {
  const name = input("name", { required: true });
  const fields = [text, field("Type the name of the tenant", name)];
  return ask(title, fields, { action, kind: "danger" }, () => perform(name.value));
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
  const press = async () =>
    (await copyText(control.value)) ? fill(copy, "Copied") : control.focus();
  const copy = button("Copy", press, { label: `Copy: ${label}` });
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
