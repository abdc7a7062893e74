"""The console says what is wrong in words, and what to do."""

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.steps import go, sign_in

# Longer than the console waits for an answer to a read.
SILENT_MS = 11_000


@pytest.fixture(name="page")
def _page(watched: Watched, fleet: Fleet) -> Page:
    sign_in(watched.page, fleet.url)
    return watched.page


def break_module(page: Page, name: str) -> None:
    page.route(f"**/{name}", lambda route: route.abort())


class TestMissingModule:
    def test_of_a_view_leads_to_a_reload(self, context: BrowserContext, fleet: Fleet):
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        break_module(page, "backups.js")

        go(page, "#/backups", "This page could not be loaded")

        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("A part of the console could not be loaded")
        expect(alert).to_contain_text("Reload the page.")
        page.unroute("**/backups.js")
        page.get_by_role("button", name="Reload the page").click()
        page.get_by_role("heading", name="Backups", level=1).wait_for()
        watched.check(may_break=True)

    def test_of_the_search_is_reported(self, context: BrowserContext, fleet: Fleet):
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        break_module(page, "palette.js")

        page.keyboard.press("Control+k")

        expect(page.locator("#complaints")).to_contain_text("A part of the console could not")
        watched.check(may_break=True)


class TestFoldedSql:
    def test_is_marked_and_unfolds(self, page: Page, api: httpx.Client):
        body = api.post("/api/admin/tenants/migrate-all", json={"dryRun": True}).json()
        revision = {"engine": "sqlite", "runsAs": "recorded", "isCut": False, "findings": []}
        body["data"]["revisions"] = [
            {**revision, "revision": name, "sql": f"SELECT {name}"} for name in ("0008", "0009")
        ]
        page.route("**/migrate-all", lambda route: route.fulfill(json=body))
        go(page, "#/runs/plan", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        summary = page.locator("summary").first

        def shown() -> str:
            script = """one => getComputedStyle(one, "::before").content +
                getComputedStyle(one.querySelector(".unfold"), "::after").content"""
            return str(summary.evaluate(script))

        assert "▸" in shown()
        assert "Show SQL" in shown()
        summary.click()
        expect(page.get_by_text("SELECT 0008")).to_be_visible()
        assert "▾" in shown()
        assert "Hide SQL" in shown()
        assert violations(page) == []


class TestPageOfATenant:
    def test_links_only_runs_that_exist(self, page: Page, fleet: Fleet):
        """What was applied when the tenant was created was applied by no run."""
        tenant = fleet.tenants[60]
        go(page, f"#/tenants/{tenant.id}", tenant.name)

        region = page.get_by_role("region", name="Migrations")
        expect(region.get_by_role("cell", name="at creation").first).to_be_visible()
        for link in region.get_by_role("link").all():
            link.click()
            page.get_by_role("heading", name="Run", level=1).wait_for()
            page.go_back()
            page.get_by_role("heading", name=tenant.name, level=1).wait_for()

    def test_says_why_a_read_only_tenant_is_not_migrated(
        self, page: Page, fleet: Fleet, api: httpx.Client
    ):
        tenant = fleet.tenants[61]
        path = f"/api/admin/tenants/{tenant.id}"
        api.patch(path, json={"isReadOnly": True}).raise_for_status()

        go(page, f"#/tenants/{tenant.id}", tenant.name)
        expect(page.get_by_role("button", name="Migrate this tenant")).to_be_disabled()
        expect(page.get_by_text("Migration runs skip a read-only tenant.")).to_be_visible()
        assert violations(page) == []
        go(page, f"#/runs/plan?tenant={tenant.id}", "Plan a run")
        expect(page.get_by_text(f"{tenant.name} is read-only, and migration runs")).to_be_visible()
        page.get_by_role("link", name="Show the tenant").click()
        page.get_by_role("heading", name=tenant.name, level=1).wait_for()

        api.patch(path, json={"isReadOnly": False}).raise_for_status()


class TestSilentNetwork:
    def test_is_shown_and_the_old_view_is_not(self, context: BrowserContext, fleet: Fleet):
        """Packets that are dropped: no answer, and no error either."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        page.clock.install()
        sign_in(page, fleet.url)
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/api/**", hold)

        with page.expect_request("**/api/admin/tenants**"):
            page.evaluate("location.hash = '#/tenants'")
        page.clock.run_for(3_000)
        expect(page.get_by_role("heading", name="Fleet", level=1)).to_have_count(0)
        page.clock.run_for(SILENT_MS)

        expect(page.get_by_role("main")).to_contain_text("The service cannot be reached.")
        note = page.get_by_role("status").filter(has_text="Last known")
        expect(note.first).to_be_visible()
        page.unroute("**/api/**")
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("heading", name="Tenants", level=1).wait_for()
        expect(page.get_by_text("Last known")).to_have_count(0)
        watched.check()
