// Small charts in SVG. Each shows the data of a table or a list on the same page.

import { svg } from "./dom.js";
import { count, duration, localTime, plural, secondsBetween, shortTime } from "./format.js";

const BAND = 72; // height of one of the two rows of the timeline
const TOP = 18;
const SECOND_TOP = TOP + BAND + 32;
const HEIGHT = SECOND_TOP + BAND + 42;
const BINS_MIN = 8; // a bar is no wider than an eighth
const BAR_SHARE = 0.7;
const SLOTS_MIN = 10; // so that the bars of a few runs stay narrow
const FEW_SHARE = 0.4;
const PART_MIN = 4; // so that 3 failures of 300 are seen
// The upper bounds of the bins of a histogram, in seconds.
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800];

/** The duration of each run, its tenants and its failures; the newest run is on the right. */
export function timeline(runs) {
  const shown = runs.toReversed();
  const took = shown.map((run) => secondsBetween(run.startedAt, run.finishedAt));
  const longest = Math.max(...took);
  const largest = Math.max(1, ...shown.map((run) => run.totalCount));
  const width = 100 / Math.max(SLOTS_MIN, shown.length);
  const bars = shown.map((run, index) => {
    const left = 100 - (shown.length - index) * width;
    const share = shown.length < SLOTS_MIN ? FEW_SHARE : BAR_SHARE;
    const place = { x: left + (width * (1 - share)) / 2, width: width * share };
    return svg(
      "a",
      { href: `#/runs/${run.id}`, tabindex: "-1" },
      svg("title", {}, titleOf(run, took[index])),
      part("hit", { x: left, width }, 0, HEIGHT),
      bar("bar-took", place, TOP, took[index] / longest),
      tenantsOf(run, place, largest),
    );
  });
  return svg(
    "svg",
    { class: "chart", height: HEIGHT, role: "group", "aria-label": summary(shown, took) },
    axis(TOP, "Duration", duration(longest)),
    axis(SECOND_TOP, "Tenants, and below the failures", plural(largest, "tenant")),
    bars,
    dates(shown, width),
  );
}

/** The number of durations in each bin. */
export function histogram(seconds) {
  const counts = new Array(BOUNDS.length + 1).fill(0);
  for (const one of seconds) {
    const bin = BOUNDS.findIndex((bound) => one < bound);
    counts[bin === -1 ? BOUNDS.length : bin] += 1;
  }
  const first = counts.findIndex((one) => one > 0);
  const last = counts.findLastIndex((one) => one > 0);
  const bins = counts
    .slice(first, last + 1)
    .map((number, index) => [boundsOf(first + index), number]);
  const most = Math.max(...bins.map(([, number]) => number));
  const width = 100 / Math.max(BINS_MIN, bins.length);
  const described = bins.map(([text, number]) => `${text}: ${count(number)}`).join("; ");
  return svg(
    "svg",
    {
      class: "chart",
      height: TOP + BAND + 22,
      role: "img",
      "aria-label": `Durations. ${described}.`,
    },
    bins.map(([text, number], index) => {
      const middle = `${(index + 0.5) * width}%`;
      const place = { x: index * width + (width * (1 - BAR_SHARE)) / 2, width: width * BAR_SHARE };
      return [
        bar("bar-took", place, TOP, number / most),
        number > 0 && label(middle, TOP + BAND * (1 - number / most) - 4, count(number), "middle"),
        label(middle, TOP + BAND + 16, text, "middle", index % 2 === 1 ? "minor" : null),
      ];
    }),
  );
}

/** A row of the chart: its title, its largest value, and lines at the top, middle and bottom. */
function axis(top, title, largest) {
  return [
    [top, top + BAND / 2, top + BAND].map((y) =>
      svg("line", { class: "axis", x1: 0, x2: "100%", y1: y, y2: y }),
    ),
    label(0, top - 6, title),
    label("100%", top - 6, largest, "end"),
  ];
}

/** The date of the newest run, and as many others as there is space for. */
function dates(runs, width) {
  const last = runs.length - 1;
  const isWide = runs.length * width > 60;
  const used = isWide ? [...new Set([0, Math.floor(runs.length / 2), last])] : [last];
  return used.map((index) => {
    const middle = 100 - (runs.length - index - 0.5) * width;
    const anchor = index === last ? "end" : index === 0 ? "start" : "middle";
    const x = { end: 100, start: middle - width / 2, middle }[anchor];
    return label(`${x}%`, HEIGHT - 6, shortTime(runs[index].startedAt), anchor);
  });
}

function tenantsOf(run, place, largest) {
  const failed = run.failedCount - run.notAttemptedCount;
  const success = heightOf(run.successCount / largest);
  const failure = heightOf(failed / largest);
  const skipped = heightOf(run.notAttemptedCount / largest);
  const middle = `${place.x + place.width / 2}%`;
  const bottom = SECOND_TOP + BAND;
  const top = bottom - success - failure - skipped;
  return [
    part("bar-all", place, bottom - heightOf(run.totalCount / largest), bottom),
    part("bar-success", place, bottom - success, bottom),
    part("bar-skipped", place, bottom - success - skipped, bottom - success),
    part("bar-failed", place, top, bottom - success - skipped),
    failed > 0 && label(middle, bottom + 16, count(failed), "middle", "alarm"),
  ];
}

function heightOf(share) {
  return share > 0 ? Math.max(PART_MIN, BAND * share) : 0;
}

function part(kind, { x, width }, from, to) {
  return svg("rect", {
    class: kind,
    x: `${x}%`,
    y: from,
    width: `${width}%`,
    height: Math.max(0, to - from),
  });
}

function bar(kind, place, top, share) {
  const bottom = top + BAND;
  return part(kind, place, bottom - heightOf(share), bottom);
}

function label(x, y, text, anchor = "start", kind = /** @type {string|null} */ (null)) {
  return svg("text", { class: kind, x, y, "text-anchor": anchor }, text);
}

function boundsOf(bin) {
  if (bin === BOUNDS.length) {
    return `≥ ${duration(BOUNDS[bin - 1])}`;
  }
  return `< ${duration(BOUNDS[bin])}`.replace(".0 ", " ");
}

function titleOf(run, seconds) {
  const failed = run.failedCount - run.notAttemptedCount;
  const failures = failed > 0 ? `, ${count(failed)} failed` : "";
  const tenants = plural(run.totalCount, "tenant");
  return `${localTime(run.startedAt)}: ${tenants}${failures}, ${duration(seconds)}`;
}

function summary(runs, took) {
  const failing = runs.filter((run) => run.failedCount > run.notAttemptedCount).length;
  const longest = duration(Math.max(...took));
  const counts = `${plural(runs.length, "run")}; ${count(failing)} with failures`;
  return `${counts}; the longest took ${longest}. The table below lists them.`;
}
