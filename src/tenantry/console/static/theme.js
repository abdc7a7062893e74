// The theme: that of the system, light, or dark. It is kept in this browser.

const KEY = "tenantry.theme";
const THEMES = ["system", "light", "dark"];

/** Dispatches "change" when colours have changed. */
export const themeChanges = new EventTarget();

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
systemIsDark.addEventListener("change", notify);

/** Return the chosen theme. */
export function theme() {
  const kept = localStorage.getItem(KEY);
  return kept !== null && THEMES.includes(kept) ? kept : "system";
}

/** Use the chosen theme, or the next one. */
export function applyTheme(chosen = theme()) {
  localStorage.setItem(KEY, chosen);
  document.documentElement.dataset.theme = chosen;
  notify();
}

/** Switch to the next theme, and return it. */
export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  applyTheme(next);
  return next;
}

function notify() {
  themeChanges.dispatchEvent(new Event("change"));
}
