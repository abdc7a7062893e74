"""The operator's story without a pointer, and with forced colours."""

import csv
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Fleet, Take, Watched
from tests.e2e.stage import ADMIN, GONE, PASSWORD
from tests.e2e.steps import go, keeps_focus, sign_in

pytestmark = pytest.mark.timeout(300)

RUN_MS_MAX = 60_000
HELD = 100  # the tenant that keeps the run from its end
TABS_MAX = 60
ITEMS_MAX = 8
FOCUSED = "document.activeElement.ariaLabel || document.activeElement.textContent"


def tab_to(page: Page, text: str) -> None:
    """Press Tab until a control with a text has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        keeps_focus(page)
        if re.search(text, str(page.evaluate(FOCUSED))):
            return
    raise AssertionError(text)


def palette(page: Page, text: str, heading: str) -> None:
    """Open the search, and go to what it finds."""
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").wait_for()
    page.keyboard.type(text)
    found = page.get_by_role("dialog").get_by_role("option").first
    expect(found).to_contain_text(re.compile(text, re.IGNORECASE))
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=heading, level=1).wait_for()
    keeps_focus(page)


class TestKeyboard:
    def test_walks_the_story(self, watched: Watched, fleet: Fleet):
        """Sign in, plan, migrate, cancel, export and sign out; the focus is never lost."""
        page = watched.page
        for place in set(range(150)) - set(GONE):
            fleet.tenants[place].fall_behind()
        page.goto(f"{fleet.url}/console")
        page.get_by_role("button", name="Sign in").wait_for()
        page.keyboard.type(ADMIN)
        page.keyboard.press("Tab")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Fleet", level=1).wait_for()
        keeps_focus(page)

        palette(page, "plan a run", "Plan a run")
        tab_to(page, "^Show the plan$")
        page.keyboard.press("Enter")
        page.get_by_role("button", name=re.compile("^Migrate")).wait_for()
        keeps_focus(page)
        with fleet.tenants[HELD].locked():
            tab_to(page, "^Migrate")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Run of", level=1).wait_for()
            keeps_focus(page)
            tab_to(page, "^Cancel the run$")
            page.keyboard.press("Enter")
            page.get_by_role("dialog").wait_for()
            assert page.evaluate(FOCUSED) == "Cancel"
            tab_to(page, "^Cancel the run$")
            page.keyboard.press("Enter")
            expect(page.locator("dialog")).to_have_count(0)
        expect(page.locator(".head .badge")).to_have_text("cancelled", timeout=RUN_MS_MAX)
        keeps_focus(page)
        tab_to(page, "^Export CSV$")
        with page.expect_download() as saved:
            page.keyboard.press("Enter")
        lines = saved.value.path().read_text(encoding="utf-8").splitlines()
        exported = {row["customerName"] for row in csv.DictReader(lines)}
        assert exported >= {tenant.name for tenant in fleet.tenants}
        keeps_focus(page)
        palette(page, fleet.tenants[0].name, fleet.tenants[0].name)
        tab_to(page, "^Actions for")
        page.keyboard.press("Enter")
        for _ in range(ITEMS_MAX):
            page.keyboard.press("ArrowDown")
            if page.evaluate(FOCUSED) == "Clone…":
                break
        page.keyboard.press("Enter")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)
        keeps_focus(page)


class TestForcedColours:
    def test_show_every_state(self, browser: Browser, fleet: Fleet, take: Take):
        """The map and the marks are drawn in colours of the system."""
        context = browser.new_context(forced_colors="active")
        page = context.new_page()
        sign_in(page, fleet.url)
        canvas = page.locator("canvas[data-cells]")
        canvas.wait_for()
        page.wait_for_timeout(300)
        drawn = canvas.evaluate(
            """(canvas) => {
              const pixels = canvas.getContext("2d").getImageData(0, 0, 400, 60).data;
              const colours = new Set();
              for (let at = 0; at < pixels.length; at += 4) {
                colours.add(pixels.slice(at, at + 4).join());
              }
              return colours.size;
            }"""
        )
        assert drawn > 1
        take(page, "forced-fleet")
        go(page, "#/runs", "Runs")
        take(page, "forced-runs")
        context.close()
