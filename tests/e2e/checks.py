"""Accessibility of a page: the rules of axe, and checks that it lacks."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

TAB_STOPS_MAX = 60
# What has the focus: where it is, whether it can be seen to have it. Elements are compared, and not
# their numbers: a list can grow while the tabulator walks.
FOCUSED = """() => {
  const one = document.activeElement;
  const before = window.focusedBefore ?? one;
  window.focusedFirst ??= one;
  window.focusedBefore = one;
  const box = one.getBoundingClientRect();
  const style = getComputedStyle(one);
  return {
    name: (one.getAttribute("aria-label") || one.innerText || one.id || one.tagName).slice(0, 60),
    isBody: one === document.body,
    isShown: box.width > 0 && box.height > 0,
    isLast: one === [...document.querySelectorAll(
      "a[href], button, input, select, textarea, summary, [tabindex='0']"
    )].filter((other) => other.checkVisibility()).at(-1),
    isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    isFirst: one === window.focusedFirst,
    isBack: before.isConnected &&
      Boolean(before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING),
  };
}"""

# Duplicate ids, controls named only by a placeholder, and headings out of order.
OUTLINE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const twice = ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `twice: ${id}`);
  const controls = [...document.querySelectorAll("input, select, textarea")]
    .filter((one) => one.labels.length === 0 && !one.ariaLabel)
    .map((one) => `without label: ${one.name}`);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((one) => one.checkVisibility() && one.closest("dialog") === null)
    .map((one) => Number(one.tagName[1]));
  const jumps = levels
    .filter((level, index) => level > (levels[index - 1] ?? 0) + 1 || (index > 0 && level === 1))
    .map((level) => `heading out of order: h${level}`);
  return [...twice, ...controls, ...jumps];
}"""


def violations(page: Page) -> list[str]:
    """Return what axe finds, and what it lets pass: ids, labels, the order of the headings."""
    found: dict[str, Any] = Axe().run(page).response
    return page.evaluate(OUTLINE) + [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def too_wide(page: Page) -> bool:
    """Return whether the page itself scrolls sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def tab_faults(page: Page) -> list[str]:
    """Walk over the page with the tabulator; return where the focus is lost, unseen or jumps."""
    page.locator("a, button, input").first.focus()
    faults: list[str] = []
    page.evaluate("window.focusedFirst = window.focusedBefore = null")
    page.evaluate(FOCUSED)
    for _ in range(TAB_STOPS_MAX):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at["isBody"] or at["isFirst"]:
            break
        if not (at["isShown"] and at["isMarked"]):
            faults.append(f"unseen: {at['name']}")
        if at["isBack"]:
            faults.append(f"out of order: {at['name']}")
        # Firefox would leave the page for its toolbar, and not come back.
        if at["isLast"]:
            break
    return faults
