// Small charts in SVG. Each shows the data of a table or a list on the same page.

import { svg } from "./dom.js";
import { count, duration, localTime, plural, secondsBetween } from "./format.js";

const HEIGHT = 184;
const BAND = 60; // height of one of the two rows of the timeline
const TOP = 18;
const SECOND_TOP = TOP + BAND + 28;
const BAR_SHARE = 0.7;
const SLOTS_MIN = 30; // so that the bars of a few runs stay narrow
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
    const place = { x: left + (width * (1 - BAR_SHARE)) / 2, width: width * BAR_SHARE };
    return svg(
      "a",
      { href: `#/runs/${run.id}`, tabindex: "-1" },
      svg("title", {}, titleOf(run, took[index])),
      svg("rect", {
        class: "hit",
        x: `${left}%`,
        y: 0,
        width: `${width}%`,
        height: HEIGHT,
      }),
      bar("bar-took", place, TOP, took[index] / longest),
      tenantsOf(run, place, largest),
    );
  });
  return svg(
    "svg",
    { class: "chart", height: HEIGHT, role: "group", "aria-label": summary(shown, took) },
    label(0, TOP - 6, `Duration, up to ${duration(longest)}`),
    label(0, SECOND_TOP - 6, `Tenants, up to ${count(largest)}; × marks failures`),
    bars,
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
  const width = 100 / bins.length;
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
        label(middle, TOP + BAND + 16, text, "middle"),
      ];
    }),
  );
}

function tenantsOf(run, place, largest) {
  const failed = run.failedCount / largest;
  const ended = (run.successCount + run.failedCount) / largest;
  const middle = `${place.x + place.width / 2}%`;
  return [
    bar("bar-all", place, SECOND_TOP, run.totalCount / largest),
    bar("bar-failed", place, SECOND_TOP, ended),
    bar("bar-success", place, SECOND_TOP, ended - failed),
    run.failedCount > 0 &&
      svg(
        "text",
        { class: "alarm", x: middle, y: SECOND_TOP + BAND + 14, "text-anchor": "middle" },
        "×",
      ),
  ];
}

function bar(kind, { x, width }, top, share) {
  const height = share > 0 ? Math.max(2, BAND * share) : 0;
  const y = top + BAND - height;
  return svg("rect", { class: kind, x: `${x}%`, y, width: `${width}%`, height });
}

function label(x, y, text, anchor = "start") {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}

function boundsOf(bin) {
  if (bin === BOUNDS.length) {
    return `≥ ${duration(BOUNDS[bin - 1])}`;
  }
  return `< ${duration(BOUNDS[bin])}`.replace(".0 ", " ");
}

function titleOf(run, seconds) {
  const failures = run.failedCount > 0 ? `, ${count(run.failedCount)} failed` : "";
  const tenants = plural(run.totalCount, "tenant");
  return `${localTime(run.startedAt)}: ${tenants}${failures}, ${duration(seconds)}`;
}

function summary(runs, took) {
  const failing = runs.filter((run) => run.failedCount > 0).length;
  const longest = duration(Math.max(...took));
  const counts = `${plural(runs.length, "run")}; ${count(failing)} with failures`;
  return `${counts}; the longest took ${longest}. The table below lists them.`;
}
