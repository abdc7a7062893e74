// The shapes of the cells of a grid.

/** The states with a colour of their own; `LIKE` has the others. */
export const STATES_DRAWN = [
  "head",
  "behind",
  "failing",
  "unknown",
  "suspended",
  "moving",
  "pending",
];

const LIKE = { success: "head", failed: "failing", skipped: "suspended", readonly: "suspended" };
// A smaller cell is only a colour.
const SHAPES_FROM = 8;

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
  context.roundRect(x, y, side, side, side / 5);
  if (state === "suspended" || state === "pending") {
    hollow(context, x, y, side, colours[state], state === "suspended");
    return;
  }
  context.fill();
  if (state === "failing") {
    cross(context, x, y, side, colours.ground);
  } else if (state === "behind") {
    context.clearRect(x + side * 0.3, y + side * 0.3, side * 0.4, side * 0.4);
  } else if (state === "unknown") {
    context.clearRect(x + side * 0.2, y + side * 0.4, side * 0.6, side * 0.2);
  }
}

function hollow(context, x, y, side, colour, isHatched) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.stroke();
  if (isHatched) {
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
