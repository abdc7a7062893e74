// Elements without markup: every text becomes a text node, never HTML.

const SVG = "http://www.w3.org/2000/svg";
const TYPING_PAUSE_MS = 200;

/** Return the element with an id, which must exist. */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Return the elements of a selector. */
export function all(selector, root = /** @type {ParentNode} */ (document)) {
  return [.../** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(selector))];
}

/**
 * Create an HTML element.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Object<string, any>} [attributes] `onclick: f` adds a listener; `style: {…}` sets
 *   properties, because the policy of the page forbids style attributes; `true` sets an empty
 *   attribute; null and false are omitted.
 * @param {...any} children Nodes, texts and arrays of them; null, undefined and false are omitted.
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Set properties in the style of an element. */
function style(element, properties) {
  for (const [property, setting] of Object.entries(properties)) {
    element.style.setProperty(property, setting);
  }
}

/** Create an SVG element; the arguments are those of `el`. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Replace the children of an element. A focused control keeps the focus if it is still there. */
export function fill(element, ...children) {
  const focused = document.activeElement;
  const isInside = focused !== null && focused !== element && element.contains(focused);
  const mark = isInside ? signature(focused) : "";
  element.replaceChildren(...nodes(children));
  if (isInside && !element.contains(focused)) {
    focusLike(element, mark);
  }
  return element;
}

/** Update the children of an element: a child with the same key is kept, with its focus. */
export function keyed(element, items, { key, create, update }) {
  const known = new Map([...element.children].map((child) => [child.dataset.key, child]));
  const wanted = items.map((item) => {
    const id = String(key(item));
    const child = known.get(id) ?? create(item);
    child.dataset.key = id;
    update(child, item);
    known.delete(id);
    return child;
  });
  for (const gone of known.values()) {
    gone.remove();
  }
  for (const [index, child] of wanted.entries()) {
    if (element.children[index] !== child) {
      element.insertBefore(child, element.children[index] ?? null);
    }
  }
}

/** What a control is, for finding its successor after an update. */
export function signature(element) {
  const { dataset } = element;
  const label = element.getAttribute("aria-label");
  return dataset.turn || label || element.name || element.textContent;
}

/** Focus the control in `root` with a signature, or else its heading, or else itself. */
export function focusLike(root, mark) {
  const controls = all("a[href], button, input, select, textarea, summary", root);
  const same = controls.find((one) => mark !== "" && signature(one) === mark);
  const place = same ?? all("h1, h2, h3", root)[0] ?? root;
  if (same === undefined && place.tabIndex < 0) {
    place.setAttribute("tabindex", "-1");
  }
  place.focus({ preventScroll: true });
}

/** Call back with the text of a control when typing pauses. */
export function onPause(control, act) {
  /** @type {number|undefined} */
  let typing;
  control.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => act(control.value), TYPING_PAUSE_MS);
  });
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    set(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    return;
  }
  if (typeof value === "function") {
    element.addEventListener(name.slice("on".length), value);
  } else if (name === "style") {
    style(element, value);
  } else {
    element.setAttribute(name, value === true ? "" : value);
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
