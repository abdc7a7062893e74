// A grid with a cell for each tenant, drawn on a canvas: a hundred thousand cells are one element.

import { drawCell, STATES_DRAWN } from "./cells.js";
import { el } from "./dom.js";
import { themeChanges } from "./theme.js";

// The size of a cell with its gap, in pixels, by the largest number of cells that gets it.
const SIZES = [
  [3_000, 14],
  [8_000, 10],
  [30_000, 6],
  [Number.POSITIVE_INFINITY, 4],
];
const ZOOM_FACTORS = [1, 1.5, 2, 3];
// Browsers limit the height of a canvas to 16,384 device pixels or more.
const HEIGHT_MAX = 8_000;

/**
 * A grid of cells, and its updates.
 *
 * @param {string} label For screen readers.
 * @param {{signal: AbortSignal, describe: (index: number) => string,
 *   pick?: (index: number) => void,
 *   hover?: (index: number|null, at: DOMRect|null) => void}} options `describe` names a cell for
 *   screen readers, `pick` is called for a click or Enter, `hover` for the cell under the pointer.
 */
export function cellGrid(label, { signal, describe, pick = () => {}, hover = () => {} }) {
  const canvas = el("canvas", {
    class: "grid",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "map",
    "aria-label": `${label}. Arrow keys move, Enter opens.`,
  });
  const spoken = el("p", { class: "unseen", "aria-live": "polite" });
  const probes = el("div", { class: "probes", "aria-hidden": "true" });
  const frame = el("div", { class: "grid-frame" }, canvas, spoken, probes);
  const probe = Object.fromEntries(
    [...STATES_DRAWN, "focus", "ground"].map((name) => [
      name,
      el("span", { class: `probe-${name}` }),
    ]),
  );
  probes.append(...Object.values(probe));
  let states = [];
  let dimmed = /** @type {Set<number>|null} */ (null);
  let at = -1;
  let zoom = 0;
  let isDue = false;
  let columns = 1;
  let size = 14;

  function layout() {
    const width = frame.clientWidth || 1;
    const [, fitting] = SIZES.find(([most]) => states.length <= most) ?? SIZES[0];
    size = Math.round(fitting * ZOOM_FACTORS[zoom]);
    columns = Math.max(1, Math.floor(width / size));
    while (Math.ceil(states.length / columns) * size > HEIGHT_MAX && size > fitting) {
      size -= 1;
      columns = Math.max(1, Math.floor(width / size));
    }
    return { width, height: Math.max(size, Math.ceil(states.length / columns) * size) };
  }

  function draw() {
    isDue = false;
    const { width, height } = layout();
    const ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.setProperty("height", `${height}px`);
    canvas.dataset.cells = String(states.length);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(ratio, ratio);
    const colours = Object.fromEntries(
      Object.entries(probe).map(([name, one]) => [name, getComputedStyle(one).color]),
    );
    for (const [index, state] of states.entries()) {
      context.globalAlpha = dimmed === null || dimmed.has(index) ? 1 : 0.15;
      drawCell(context, { ...placeOf(index), size }, state, colours);
    }
    context.globalAlpha = 1;
    if (at >= 0 && at < states.length) {
      const { x, y } = placeOf(at);
      context.strokeStyle = colours.focus;
      context.lineWidth = 2;
      context.strokeRect(x - 0.5, y - 0.5, size - 1, size - 1);
    }
  }

  function placeOf(index) {
    return { x: (index % columns) * size + 1, y: Math.floor(index / columns) * size + 1 };
  }

  function request() {
    if (!isDue) {
      isDue = true;
      requestAnimationFrame(draw);
    }
  }

  function indexAt(event) {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / size);
    const row = Math.floor((event.clientY - box.top) / size);
    const index = row * columns + column;
    return column < columns && index < states.length ? index : null;
  }

  function boxOf(index) {
    const box = canvas.getBoundingClientRect();
    const { x, y } = placeOf(index);
    return new DOMRect(box.left + x, box.top + y, size, size);
  }

  function move(to, isSpoken = true) {
    at = Math.max(0, Math.min(states.length - 1, to));
    spoken.textContent = isSpoken ? describe(at) : "";
    hover(at, boxOf(at));
    const box = boxOf(at);
    if (box.top < 60 || box.bottom > innerHeight - 60) {
      scrollBy(0, box.top - innerHeight / 2);
    }
    request();
  }

  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    const ends = { Home: 0, End: states.length - 1 };
    if (states.length === 0) {
      return;
    }
    if (event.key in steps) {
      event.preventDefault();
      move(at < 0 ? 0 : at + steps[event.key]);
    } else if (event.key in ends) {
      event.preventDefault();
      move(ends[event.key]);
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
      event.preventDefault();
      pick(at);
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    const index = indexAt(event);
    hover(index, index === null ? null : boxOf(index));
  });
  canvas.addEventListener("pointerleave", () => hover(null, null));
  canvas.addEventListener("blur", () => {
    at = -1;
    hover(null, null);
    request();
  });
  canvas.addEventListener("click", (event) => {
    const index = indexAt(event);
    if (index !== null) {
      at = index;
      request();
      pick(index);
    }
  });
  new ResizeObserver(request).observe(frame);
  themeChanges.addEventListener("change", request, { signal });

  return {
    element: frame,
    canvas,
    /** Show these states, in this order. */
    set(changed) {
      states = changed;
      request();
    },
    /** Show only these cells fully; null for all. */
    highlight(indexes) {
      dimmed = indexes;
      request();
    },
    /** Change the size of the cells by one step. */
    zoomBy(step) {
      zoom = Math.max(0, Math.min(ZOOM_FACTORS.length - 1, zoom + step));
      request();
      return { isSmallest: zoom === 0, isLargest: zoom === ZOOM_FACTORS.length - 1 };
    },
  };
}
