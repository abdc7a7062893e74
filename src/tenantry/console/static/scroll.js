// The place on a page: kept in its entry of the browser's history, and found again on Back.

import { byId } from "./dom.js";

const GROWING_MS_MAX = 2000; // a page is as long as its data, which comes later
let isShowing = false;

/** Keep the place of every page from now on. */
export function keepPlaces() {
  history.scrollRestoration = "manual";
  const keep = () => !isShowing && history.replaceState({ y: scrollY }, "");
  addEventListener("scroll", keep, { passive: true });
}

/** Keep no place until `findPlace`: the page is being replaced. Return that of the new one. */
export function placeOfEntry() {
  isShowing = true;
  return history.state?.y ?? 0;
}

/** Scroll to a place as soon as the page is long enough, unless the user scrolls. */
export function findPlace(y, signal) {
  const done = () => {
    growing.disconnect();
    isShowing = isShowing && signal.aborted;
  };
  const growing = new ResizeObserver(() => {
    if (!signal.aborted) {
      scrollTo(0, y);
    }
    if (signal.aborted || scrollY >= y - 1) {
      done();
    }
  });
  scrollTo(0, y);
  growing.observe(byId("main"));
  setTimeout(done, GROWING_MS_MAX);
  addEventListener("wheel", done, { once: true, passive: true, signal });
}
