// Elements without markup: whatever text comes in becomes a text node, so text stays text.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an HTML element.
 *
 * @param {string} tag
 * @param {Object} [attributes] `onclick: f` listens; `style: {…}` sets properties, because the
 *   policy of the page forbids style attributes; `true` stands alone; null and false are left out.
 * @param {...(Node|string|number|Array|null|undefined|false)} children
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an SVG element; the arguments are those of `el`. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Let an element hold these children and no others. */
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
