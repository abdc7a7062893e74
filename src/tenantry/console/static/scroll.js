// The place on a page, and what was entered in its form: kept in its entry of the history of the
// browser, and found again on Back.

import { byId } from "./dom.js";

const GROWING_MS_MAX = 2000; // a page is as long as its data, which comes later
let isShowing = false;

/** Keep the place of every page from now on. */
export function keepPlaces() {
  history.scrollRestoration = "manual";
  const keep = () => !isShowing && history.replaceState({ ...history.state, y: scrollY }, "");
  addEventListener("scroll", keep, { passive: true });
}

/** Enter in a form what was kept of it, and keep what is entered from now on: nothing secret. */
export function keepEntries(form) {
  const kept = history.state?.entered;
  for (const one of kept === undefined ? [] : form.elements) {
    if (one.type === "radio" || one.type === "checkbox") {
      one.checked = kept[one.name] === one.value;
    } else if (one.name in kept) {
      one.value = kept[one.name];
    }
  }
  form.addEventListener("input", () => {
    const entered = Object.fromEntries(new FormData(form));
    history.replaceState({ ...history.state, entered }, "");
  });
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
