// The shapes of the cells of a grid.

/** The states with a colour of their own; `LIKE` has the others. */
export const STATES_DRAWN = [
  "head",
  "behind",
  "failing",
  "drifted",
  "unknown",
  "suspended",
  "moving",
  "pending",
];

const LIKE = { success: "head", failed: "failing", skipped: "suspended", readonly: "suspended" };
const HOLLOW = new Set(["behind", "drifted", "unknown", "suspended", "pending"]);
// A smaller cell is only a colour.
const SHAPES_FROM = 8;
const FILL_ALPHA = 0.6;

// The size of a cell with its gap, in pixels, by the largest number of cells that gets it.
const SIZES = [
  [3_000, 14],
  [8_000, 10],
  [30_000, 6],
  [Number.POSITIVE_INFINITY, 4],
];
// Fewer cells are larger, up to this size, so that they fill this height.
const SIZE_MAX = 28;
const HEIGHT_FILLED = 220;

/** Return the size of a cell with its gap, in pixels, for a number of cells and a width. */
export function sizeFor(number, width) {
  const [, least] = SIZES.find(([most]) => number <= most) ?? SIZES[0];
  const filling = Math.floor(Math.sqrt((width * HEIGHT_FILLED) / Math.max(1, number)));
  return Math.max(least, Math.min(SIZE_MAX, filling));
}

/**
 * Draw a cell: each state has a colour and a shape.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {{x: number, y: number, size: number}} place Its corner, and its size with the gap.
 * @param {string} given The state.
 * @param {Object<string, string>} colours By state, and of the ground.
 */
export function drawCell(context, { x, y, size }, given, colours) {
  const state = LIKE[given] ?? given;
  const side = size - (size < SHAPES_FROM ? 1 : 2);
  context.fillStyle = colours[state];
  if (size < SHAPES_FROM) {
    context.fillRect(x, y, side, side);
    return;
  }
  context.beginPath();
  if (!HOLLOW.has(state)) {
    context.roundRect(x, y, side, side, side / 5);
    context.fill();
    if (state === "failing") {
      cross(context, x, y, side, colours.ground);
    }
    return;
  }
  context.strokeStyle = colours[state];
  context.lineWidth = 1;
  context.roundRect(x + 0.5, y + 0.5, side - 1, side - 1, side / 5);
  context.stroke();
  if (state === "behind") {
    context.beginPath();
    context.roundRect(x + 1, y + side / 2, side - 2, side / 2 - 1, [0, 0, side / 6, side / 6]);
    context.globalAlpha *= FILL_ALPHA;
    context.fill();
  } else if (state === "drifted") {
    context.fillRect(x + 1, y + 1, side / 2 - 1, side - 2);
  } else if (state === "unknown") {
    context.fillRect(x + side * 0.25, y + side * 0.4, side * 0.5, side * 0.2);
  } else if (state === "suspended") {
    context.beginPath();
    context.moveTo(x + 1, y + side - 1);
    context.lineTo(x + side - 1, y + 1);
    context.stroke();
  }
}

function cross(context, x, y, side, colour) {
  const inset = side * 0.28;
  context.strokeStyle = colour;
  context.lineWidth = Math.max(1, side / 7);
  context.beginPath();
  context.moveTo(x + inset, y + inset);
  context.lineTo(x + side - inset, y + side - inset);
  context.moveTo(x + side - inset, y + inset);
  context.lineTo(x + inset, y + side - inset);
  context.stroke();
}
