"""What a page may say while the service does not answer."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.steps import go, sign_in

pytestmark = pytest.mark.timeout(300)

SILENT_MS_MAX = 60_000
TICK_MS = 1_500
WATCHED_MS = 2_500
RUN_MS_MAX = 60_000
# Tenants that other tests leave alone; the last one is locked.
CHOSEN = (21, 22, 23)
LAST_KNOWN = re.compile(r"Last known \d\d:\d\d:\d\d")


@pytest.fixture(name="page")
def _page(context: BrowserContext, fleet: Fleet) -> Iterator[Page]:
    watched = Watched(context.new_page(), fleet.url)
    sign_in(watched.page, fleet.url)
    yield watched.page
    watched.complaints[:] = [one for one in watched.complaints if "status of 502" not in one]
    watched.check(may_be_refused=True, may_break=True)


def begin(api: httpx.Client, fleet: Fleet, **options: object) -> str:
    body = {"tenantIds": [str(fleet.tenants[place].id) for place in CHOSEN], **options}
    headers = {"Prefer": "respond-async"}
    answer = api.post("/api/admin/tenants/migrate-all", json=body, headers=headers)
    return str(answer.raise_for_status().json()["data"]["id"])


class TestRun:
    def test_withholds_what_is_not_known(
        self, context: BrowserContext, page: Page, api: httpx.Client, fleet: Fleet
    ):
        """Live figures are grey, and neither a rate nor a stall is made up."""
        for place in CHOSEN:
            fleet.tenants[place].fall_behind()
        with fleet.tenants[CHOSEN[-1]].locked():
            run_id = begin(api, fleet, waves=[len(CHOSEN), "100%"])
            go(page, f"#/runs/{run_id}", "Run of")
            outcomes = page.get_by_role("list", name="Tenants by outcome")
            expect(outcomes).to_contain_text("2 succeeded")
            rate = page.locator(".rate")
            expect(rate).to_contain_text("per second · the last tenant in work")
            context.set_offline(True)
            note = page.get_by_text(LAST_KNOWN)
            expect(note).to_be_visible(timeout=SILENT_MS_MAX)
            panel = page.locator(".run-progress > .panel")
            expect(panel).to_have_css("filter", "grayscale(1)")
            elapsed = page.locator(".facts .number")
            page.wait_for_timeout(TICK_MS)  # it goes back to when it was true
            shown = elapsed.inner_text()
            page.wait_for_timeout(WATCHED_MS)
            expect(rate).to_have_text("Reconnecting…")
            assert elapsed.inner_text() == shown
            assert violations(page) == []
        page.wait_for_timeout(2_000)  # the run ends, unseen
        context.set_offline(False)
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)
        expect(note).to_have_count(0)
        expect(panel).to_have_css("filter", "none")
        expect(page.get_by_text("Reconnecting")).to_have_count(0)

    def test_has_a_time_left_of_its_wave(self, page: Page, api: httpx.Client, fleet: Fleet):
        """The next one may hold, and the last tenant in work ends at no rate."""
        for place in CHOSEN:
            fleet.tenants[place].fall_behind()
        with fleet.tenants[CHOSEN[1]].locked():
            run_id = begin(api, fleet, waves=[2, "100%"])
            go(page, f"#/runs/{run_id}", "Run of")
            expect(page.locator(".rate")).to_contain_text("the last tenant of wave 1 in work")
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)


class TestEveryPage:
    @pytest.mark.parametrize("fault", ["a proxy answers", "nothing answers"])
    def test_says_when_it_was_true(self, page: Page, fault: str):
        """In one place, until the first answer."""
        held: list[Route] = []

        def break_(route: Route) -> None:
            if fault == "a proxy answers":
                route.fulfill(status=502, body="<h1>Bad gateway</h1>")
            else:
                held.append(route)

        page.route("**/api/**", break_)
        note = page.get_by_text(LAST_KNOWN)
        expect(note).to_be_visible(timeout=SILENT_MS_MAX)
        expect(page.locator(".home")).to_have_css("filter", "grayscale(1)")
        assert violations(page) == []
        page.unroute("**/api/**")
        expect(note).to_have_count(0, timeout=SILENT_MS_MAX)

    def test_waits_for_a_slow_answer_while_others_arrive(self, page: Page):
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/migrate-all", hold)
        go(page, "#/runs/plan", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        page.wait_for_timeout(9_000)
        expect(page.get_by_text(LAST_KNOWN)).to_have_count(0)
        held[0].continue_()
        expect(page.get_by_role("region", name="The plan")).to_be_visible()
        page.unroute("**/migrate-all")
