"""What the console weighs, and how long one waits for it."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Fleet, Report, Watched
from tests.e2e.stage import add_rows
from tests.e2e.steps import go, sign_in

BYTES_MAX = 200_000
REQUESTS_MAX = 30
MANY = 10_000
ROWS_MAX = 100
FIRST_SCREEN_MS_MAX = 1000

LOADED = """() => {
  const all = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
  return { requests: all.length, bytes: all.reduce((sum, one) => sum + one.transferSize, 0) };
}"""
# From the moment at which the last answer is here to the one at which its tiles are painted.
FIRST_SCREEN = """async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  performance.clearResourceTimings();
  const began = performance.now();
  location.hash = "#/fleet";
  while (document.querySelectorAll(".tile").length === 0) {
    await painted();
  }
  await painted();
  const ended = performance.now();
  const answers = performance.getEntriesByType("resource");
  const data = Math.max(...answers.map((one) => one.responseEnd));
  return { afterData: ended - data, altogether: ended - began };
}"""


@pytest.fixture(name="many")
def _many(fleet: Fleet) -> Fleet:
    """The fleet, and thousands of tenants that are in the catalog alone."""
    add_rows(fleet.settings, fleet.tenants[0].id, MANY)
    return fleet


def measured(page: Page, script: str) -> Any:
    return page.evaluate(script)


class TestWeight:
    def test_is_small(self, watched: Watched, fleet: Fleet, report: Report):
        """From the address to the fleet: few requests, and few bytes."""
        sign_in(watched.page, fleet.url)
        watched.page.locator(".tile").first.wait_for()

        loaded = measured(watched.page, LOADED)

        report(f"{loaded['requests']} requests, {loaded['bytes']:,} bytes")
        assert loaded["requests"] < REQUESTS_MAX
        assert 10_000 < loaded["bytes"] < BYTES_MAX

    def test_shows_a_fleet_of_thousands_within_a_second(
        self, watched: Watched, many: Fleet, report: Report
    ):
        """The first screen is there within a second of its data, and is one page of them."""
        page = watched.page
        sign_in(page, many.url)
        page.locator(".tile").first.wait_for()
        go(page, "#/audit", "Audit log")

        took = measured(page, FIRST_SCREEN)

        report(f"{took['afterData']:.0f} ms after the data, {took['altogether']:.0f} ms in all")
        assert took["afterData"] < FIRST_SCREEN_MS_MAX
        assert page.locator(".tile").count() == ROWS_MAX
        assert f"of {MANY + len(many.tenants):,}" in page.locator(".pager").inner_text()
