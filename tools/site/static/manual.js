// On every page of the manual: the search field, its key, and one theme for manual and console.

const CONSOLE_KEY = "tenantry.theme";
const KEY = "theme"; // of Furo, which says "auto" where the console says "system"
const names = { system: "auto", light: "light", dark: "dark" };

/** Return the theme that the console has stored, or null. */
function consoleTheme() {
  return names[localStorage.getItem(CONSOLE_KEY)] ?? null;
}

const chosen = consoleTheme();
if (chosen !== null) {
  localStorage.setItem(KEY, chosen);
  document.body.dataset.theme = chosen;
}

document.addEventListener("click", (event) => {
  if (event.target.closest(".theme-toggle") === null) return;
  // After the listener of Furo, which changes the theme.
  setTimeout(() => {
    const theme = document.body.dataset.theme;
    localStorage.setItem(CONSOLE_KEY, theme === "auto" ? "system" : theme);
  });
});

for (const form of document.querySelectorAll("form[data-search]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = new FormData(form).get("q");
    location.href = `${form.dataset.search}?q=${encodeURIComponent(words)}`;
  });
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select") !== null) return;
  const field = document.querySelector("#search-field, .sidebar-search");
  event.preventDefault();
  field.focus();
});

// From disk there is no console.
if (location.protocol === "file:") {
  for (const links of document.querySelectorAll(".product-links")) links.hidden = true;
}

// The navigation shows its current page; the page itself does not move.
const navigation = document.querySelector(".sidebar-scroll");
const current = navigation?.querySelector(".current-page");
if (current) {
  const below = current.getBoundingClientRect().top - navigation.getBoundingClientRect().top;
  navigation.scrollTop += below - navigation.clientHeight / 2;
}

// A wide table or listing scrolls by itself, also with the keyboard.
for (const wide of document.querySelectorAll(".highlight pre, .table-wrapper")) {
  if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}
