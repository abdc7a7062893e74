// Elements without markup: every text becomes a text node, never HTML.

const SVG = "http://www.w3.org/2000/svg";

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

/** Create an SVG element; the arguments are those of `el`. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
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
    for (const [property, setting] of Object.entries(value)) {
      element.style.setProperty(property, setting);
    }
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
