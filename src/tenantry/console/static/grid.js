// A grid with a cell for each tenant, drawn on a canvas: a hundred thousand cells are one element.

import { drawCell, sizeFor, STATES_DRAWN } from "./cells.js";
import { el } from "./dom.js";
import { themeChanges } from "./theme.js";

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
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let states = [];
  let drawn = /** @type {string[]} */ ([]); // what the canvas shows, by cell
  let colours = /** @type {Object<string, string>} */ ({});
  let dimmed = /** @type {Set<number>|null} */ (null);
  let at = -1;
  let zoom = 0;
  let isDue = false;
  let columns = 1;
  let size = 14;
  let place = "";

  /** Fit the canvas to the cells; what it shows is lost if its size changes. */
  function layout() {
    const width = frame.clientWidth || 1;
    const fitting = sizeFor(states.length, width);
    size = Math.round(fitting * ZOOM_FACTORS[zoom]);
    columns = Math.max(1, Math.floor(width / size));
    while (Math.ceil(states.length / columns) * size > HEIGHT_MAX && size > fitting) {
      size -= 1;
      columns = Math.max(1, Math.floor(width / size));
    }
    const height = Math.max(size, Math.ceil(states.length / columns) * size);
    const ratio = Math.min(2, devicePixelRatio || 1);
    const wanted = [states.length, width, height, size, ratio].join();
    if (wanted === place) {
      return;
    }
    place = wanted;
    drawn = [];
    colours = Object.fromEntries(
      Object.entries(probe).map(([name, one]) => [name, getComputedStyle(one).color]),
    );
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.setProperty("height", `${height}px`);
    context.scale(ratio, ratio);
  }

  /** Draw the cells that have changed. */
  function draw() {
    isDue = false;
    layout();
    canvas.dataset.cells = String(states.length);
    for (let index = 0; index < states.length; index += 1) {
      const isFaint = dimmed !== null && !dimmed.has(index);
      const wanted = `${states[index]}${isFaint ? " faint" : ""}${index === at ? " at" : ""}`;
      if (drawn[index] !== wanted) {
        drawn[index] = wanted;
        drawOne(index, isFaint);
      }
    }
  }

  function drawOne(index, isFaint) {
    const { x, y } = placeOf(index);
    context.clearRect(x - 1, y - 1, size, size);
    context.globalAlpha = isFaint ? 0.15 : 1;
    drawCell(context, { x, y, size }, states[index], colours);
    context.globalAlpha = 1;
    if (index === at) {
      context.strokeStyle = colours.focus;
      context.lineWidth = 2;
      context.strokeRect(x, y, size - 2, size - 2);
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

  function move(to) {
    at = Math.max(0, Math.min(states.length - 1, to));
    spoken.textContent = describe(at);
    hover(at, boxOf(at));
    const box = boxOf(at);
    if (box.top < 60 || box.bottom > innerHeight - 60) {
      scrollBy(0, box.top - innerHeight / 2);
    }
    request();
  }

  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    const to = { Home: 0, End: states.length - 1 }[event.key] ?? at + steps[event.key];
    if (states.length > 0 && !Number.isNaN(to)) {
      event.preventDefault();
      move(at < 0 && event.key !== "End" ? 0 : to);
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
  const recolour = () => {
    place = "";
    request();
  };
  themeChanges.addEventListener("change", recolour, { signal });

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
