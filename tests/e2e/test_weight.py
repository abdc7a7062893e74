"""What the console weighs, and how long one waits for it."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Fleet, Report, Watched
from tests.e2e.stage import add_rows
from tests.e2e.steps import go, sign_in

BYTES_MAX = 120_000
REQUESTS_MAX = 30
MANY = 20_000
SERIAL_MAX = 3
LATENCY_MS = 150
FIRST_SCREEN_MS_MAX = 1000

LOADED = """() => {
  const all = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
  return { requests: all.length, bytes: all.reduce((sum, one) => sum + one.transferSize, 0) };
}"""
# The longest chain of requests of which each began after the end of the one before.
SERIAL = """() => {
  const all = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
  const steps = new Map();
  for (const one of all.sort((first, second) => first.startTime - second.startTime)) {
    const before = all.filter((other) => steps.has(other) && other.responseEnd <= one.startTime);
    steps.set(one, 1 + Math.max(0, ...before.map((other) => steps.get(other))));
  }
  return { steps: Math.max(...steps.values()), ms: Math.max(...all.map((one) => one.responseEnd)) };
}"""
# From the moment at which the last answer is here to the one at which its tiles are painted.
FIRST_SCREEN = """async () => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  performance.clearResourceTimings();
  const began = performance.now();
  location.hash = "#/fleet";
  while (!document.querySelector("canvas[data-cells]")) {
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
        watched.page.locator("canvas[data-cells]").wait_for()

        loaded = measured(watched.page, LOADED)

        report(f"{loaded['requests']} requests, {loaded['bytes']:,} bytes")
        assert loaded["requests"] < REQUESTS_MAX
        assert 10_000 < loaded["bytes"] < BYTES_MAX

    def test_needs_three_serial_requests(self, watched: Watched, fleet: Fleet, report: Report):
        """The page, its modules, its data: with a latency of 150 ms nothing else adds to it."""
        page = watched.page
        sign_in(page, fleet.url)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        conditions = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        session.send("Network.emulateNetworkConditions", {**conditions, "latency": LATENCY_MS})
        page.reload()
        page.locator("canvas[data-cells]").wait_for()

        found = measured(page, SERIAL)

        report(f"{found['steps']} serial requests, {found['ms']:.0f} ms to the data")
        assert found["steps"] <= SERIAL_MAX

    def test_shows_a_fleet_of_thousands_within_a_second(
        self, watched: Watched, many: Fleet, report: Report
    ):
        """The map is there within a second of its data, and gets a cell for every tenant."""
        page = watched.page
        sign_in(page, many.url)
        page.locator("canvas[data-cells]").wait_for()
        go(page, "#/audit", "Audit log")

        took = measured(page, FIRST_SCREEN)

        report(f"{took['afterData']:.0f} ms after the data, {took['altogether']:.0f} ms in all")
        assert took["afterData"] < FIRST_SCREEN_MS_MAX
        expect(page.locator("canvas")).to_have_attribute(
            "data-cells", str(MANY + len(many.tenants)), timeout=10_000
        )
