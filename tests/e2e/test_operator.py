"""An operator's day: plan, run, watch, understand a failure, retry, issue a token."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Take, Watched
from tests.e2e.stage import GONE, TAKEN, TENANTS
from tests.e2e.steps import dialog_button, go, secret_shown_once, sign_in, wait_for_successes

RUN_MS_MAX = 60_000
# Enough to be watched for some seconds.
BEHIND = 150
HELD = 100

pytestmark = pytest.mark.timeout(300)


def total(page: Page, text: str) -> int:
    """Return the number above a text among the totals of the fleet."""
    found = page.get_by_role("list", name="Totals").get_by_role("listitem").filter(has_text=text)
    return int(found.locator(".number").inner_text().replace(",", ""))


@contextmanager
def unfinished_run(page: Page, fleet: Fleet) -> Iterator[None]:
    """Let the fleet fall behind, and watch a run that does not end during the block."""
    sign_in(page, fleet.url)
    for place in set(range(BEHIND)) - set(GONE):
        fleet.tenants[place].fall_behind()
    with fleet.tenants[HELD].locked():
        begin_a_run(page, fleet)
        yield


def begin_a_run(page: Page, fleet: Fleet) -> None:
    go(page, "#/runs/plan", "Plan a run")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name=f"Migrate {len(fleet.tenants)} tenants").click()
    wait_for_successes(page)


class TestOperator:
    def test_walks_the_story(self, watched: Watched, fleet: Fleet, take: Take):
        """From a fleet that is behind to one that is at head, by way of two kinds of failure."""
        page = watched.page
        sign_in(page, fleet.url)

        assert total(page, "behind") == TENANTS
        self.plans(page, take)
        self.watches(page, take)
        self.understands(page, fleet, take)
        self.retries(page, fleet)
        go(page, "#/fleet", "Fleet")
        assert total(page, "at head") == TENANTS - len(GONE)
        assert total(page, "failing") == len(GONE)
        assert total(page, "behind") == 0
        take(page, "fleet")
        self.issues_a_token(page, fleet, take)

    def plans(self, page: Page, take: Take) -> None:
        page.get_by_role("link", name="Plan a run").click()
        page.get_by_label("Canary: 1, then 10 %, then all").check()
        page.get_by_label("Failure budget").fill("5%")
        expect(page.locator(".words")).to_contain_text("First 1 tenant, then 10 % of")
        expect(page.locator(".words")).to_contain_text("more than 5 % of the tenants have failed")
        page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="The plan")
        pending = f"Pending, not tried: {TENANTS - len(GONE)} tenants of {TENANTS}; 0 already"
        expect(plan).to_contain_text(pending)
        paths = page.get_by_role("table", name="Pending work by path").get_by_role("row")
        expect(paths.nth(1)).to_contain_text("0002_create_invoices")
        expect(plan).to_contain_text("about 20")
        assert violations(page) == []
        take(page, "plan")
        action = f"Migrate {TENANTS} tenants · 3 waves · stop after more than 5% failures"
        page.get_by_role("button", name=action).click()

    def watches(self, page: Page, take: Take) -> None:
        page.get_by_role("heading", name="Run of", level=1).wait_for()
        outcomes = page.get_by_role("list", name="Tenants by outcome")
        expect(outcomes).to_contain_text("3 failed", timeout=RUN_MS_MAX)
        expect(outcomes).to_contain_text("remaining")
        assert page.locator("canvas.grid").get_attribute("data-cells") == str(TENANTS)
        expect(page.locator(".rate")).to_contain_text("per second · about")
        expect(page.locator("[aria-current=step]")).to_contain_text("Wave 3")
        expect(page.locator(".budget")).to_contain_text("of 10 failures allowed")
        assert violations(page) == []
        take(page, "run-in-progress")

    def understands(self, page: Page, fleet: Fleet, take: Take) -> None:
        durations = page.get_by_role("region", name="Durations")
        expect(durations).to_be_visible(timeout=RUN_MS_MAX)
        groups = page.get_by_role("list", name="Causes").get_by_role("listitem")
        expect(groups).to_have_count(2)
        expect(groups.nth(0)).to_contain_text(f"{len(TAKEN)} tenants")
        expect(groups.nth(0)).to_contain_text("table … already exists")
        expect(groups.nth(1)).to_contain_text(f"{len(GONE)} tenants")
        assert violations(page) == []
        take(page, "run-with-failures")
        failed = fleet.tenants[TAKEN[0]].name
        page.get_by_role("link", name=failed, exact=True).first.click()
        page.get_by_role("heading", name=failed, level=1).wait_for()
        page.go_back()
        groups.first.wait_for()

    def retries(self, page: Page, fleet: Fleet) -> None:
        for place in TAKEN:
            fleet.tenants[place].run("DROP TABLE invoices")
        page.get_by_role("link", name="Retry this group").first.click()
        expect(page.locator("main")).to_contain_text(f"The {len(TAKEN)} tenants that failed with")
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_role("button", name=f"Migrate {len(TAKEN)} tenants").click()
        page.get_by_role("heading", name="Run of", level=1).wait_for()
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)
        page.get_by_role("link", name="an earlier run").click()
        fixed = f"{len(TAKEN)} fixed, 0 left"
        expect(page.get_by_role("list", name="Causes")).to_contain_text(fixed)

    def issues_a_token(self, page: Page, fleet: Fleet, take: Take) -> None:
        tenant = fleet.tenants[0]
        page.get_by_role("searchbox", name="Search").fill(tenant.name)
        matches = page.get_by_role("region", name="Matches")
        matches.get_by_role("link", name=tenant.name, exact=True).click()
        page.get_by_role("heading", name=tenant.name, level=1).wait_for()
        page.get_by_role("button", name="Issue a token").click()
        page.get_by_label("Name", exact=True).fill("Ada's assistant")
        page.get_by_label("Write drafts, and read them").check()
        assert violations(page) == []
        page.get_by_role("dialog").get_by_role("button", name="Issue").click()
        page.get_by_label("McpToken", exact=True).wait_for()
        assert violations(page) == []
        take(page, "token")
        configuration = page.get_by_role("dialog").locator("textarea").first.input_value()
        token = secret_shown_once(page, "McpToken")
        assert token in configuration
        expect(page.get_by_role("region", name="McpTokens")).to_contain_text("Ada's assistant")
        take(page, "tenant")

        path, headers = f"{fleet.url}/api/tenant/modules", {"X-Mcp-Token": token}
        answer = httpx.get(path, headers=headers, timeout=60)
        assert answer.json()["success"] is True


class TestRun:
    def test_is_cancelled(self, watched: Watched, fleet: Fleet):
        """What has not started is not attempted: a state of its own, neither failed nor timed."""
        page = watched.page
        with unfinished_run(page, fleet):
            page.get_by_role("button", name="Cancel the run").click()
            dialog_button(page, "Cancel the run")

        expect(page.get_by_role("button", name="Cancel the run")).to_have_count(0)
        state = page.locator(".head .badge")
        expect(state).to_have_text("cancelled", timeout=RUN_MS_MAX)
        outcomes = page.get_by_role("list", name="Tenants by outcome")
        expect(outcomes).to_contain_text(re.compile(r"[1-9]\d* not attempted"))
        cause = page.get_by_role("list", name="Causes").get_by_role("listitem")
        expect(cause.filter(has_text="run cancelled")).to_contain_text("not attempted")
        rows = page.get_by_role("table", name="Tenants of the run").get_by_role("row")
        expect(rows.filter(has_text="run cancelled").first).not_to_contain_text(" ms")

    def test_is_watched_to_its_end(self, context: BrowserContext, fleet: Fleet):
        """Though the process was killed, and another one ended it."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        with unfinished_run(page, fleet):
            fleet.kill()
        page.get_by_text("Last known").wait_for()
        fleet.start_again()

        expect(page.get_by_role("region", name="Durations")).to_be_visible(timeout=RUN_MS_MAX)
        watched.check(may_break=True)
