"""What the console weighs, and how long one waits for it."""

from typing import Any

from playwright.sync_api import Page

from tests.e2e.conftest import Fleet, Report, Watched
from tests.e2e.steps import sign_in

BYTES_MAX = 120_000
REQUESTS_MAX = 37
SERIAL_MAX = 3
LATENCY_MS = 150

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
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})  # as at the first visit
        conditions = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        session.send("Network.emulateNetworkConditions", {**conditions, "latency": LATENCY_MS})
        page.reload()
        page.locator("canvas[data-cells]").wait_for()

        found = measured(page, SERIAL)

        report(f"{found['steps']} serial requests, {found['ms']:.0f} ms to the data")
        assert found["steps"] <= SERIAL_MAX
