"""Plans: what an operator has seen is what runs."""

import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import ADMIN
from tests.e2e.steps import go, sign_in

pytestmark = pytest.mark.timeout(300)

PASSING, BROKEN = (15, 16), 17  # tenants that other tests leave alone

DEPLOYED = """
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("DROP TABLE orders")
"""


class TestPlan:
    def test_does_not_run_a_revision_that_was_deployed_after_the_look(
        self, context: BrowserContext, fleet: Fleet
    ):
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        fleet.tenants[7].fall_behind()
        go(page, f"#/runs/plan?tenant={fleet.tenants[7].id}", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="The plan")
        expect(plan).to_contain_text("Pending, not tried: ")
        expect(plan).to_contain_text(ADMIN)
        assert violations(page) == []
        page.get_by_role("link", name="Show this plan").click()  # as another admin does
        page.get_by_role("heading", name="A stored plan", level=1).wait_for()
        expect(plan).to_contain_text("0002_create_invoices")
        expect(plan).to_contain_text("Runs live: ")
        assert violations(page) == []
        assert fleet.settings.tenant_migrations is not None
        deployed = fleet.settings.tenant_migrations / "versions" / "0003_drop_orders.py"
        deployed.write_text(DEPLOYED)
        try:
            self._migrate(page)
            expect(page.get_by_text("user:0003_drop_orders is new")).to_be_visible()
        finally:
            deployed.unlink()
        self._migrate(page)
        page.get_by_role("heading", name="Run of", level=1).wait_for()
        page.get_by_role("link", name="Show this plan").click()
        expect(plan.get_by_role("link", name="Show the run")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("^Migrate"))).to_have_count(0)
        watched.check(may_be_refused=True)

    def _migrate(self, page: Page) -> None:
        page.get_by_role("button", name=re.compile("^Migrate")).click()


class TestForm:
    def test_has_what_was_entered_after_going_back(self, context: BrowserContext, fleet: Fleet):
        page = Watched(context.new_page(), fleet.url).page
        sign_in(page, fleet.url)
        go(page, "#/runs/plan", "Plan a run")
        page.get_by_label("Canary: 1, then 10 %, then all").check()
        page.get_by_label("After each wave").select_option("true")
        page.get_by_label("Label").fill("Friday")
        page.get_by_label("Skip tenants that the catalog shows at the head").check()
        go(page, "#/health", "Health")
        page.go_back()
        page.get_by_role("heading", name="Plan a run", level=1).wait_for()
        expect(page.get_by_label("Canary: 1, then 10 %, then all")).to_be_checked()
        expect(page.get_by_label("After each wave")).to_have_value("true")
        expect(page.get_by_label("Label")).to_have_value("Friday")
        expect(page.get_by_label("Skip tenants that the catalog")).to_be_checked()
        expect(page.get_by_text("A failure in the first wave stops the run.")).to_be_visible()
        page.get_by_role("link", name="Runs", exact=True).click()
        page.get_by_role("link", name="Plan a run").click()
        expect(page.get_by_label("Label")).to_have_value("")


class TestRehearsal:
    def test_says_what_passed_and_what_would_fail(
        self, context: BrowserContext, fleet: Fleet, api: httpx.Client
    ):
        """By cause, with the slowest tenants and an estimate; those that passed are migrated."""
        for place in (*PASSING, BROKEN):
            fleet.tenants[place].fall_behind()
        fleet.tenants[BROKEN].run("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
        for place in (*PASSING, BROKEN):
            path = f"/api/admin/tenants/{fleet.tenants[place].id}"
            api.patch(path, json={"labels": {"rehearsed": "yes"}}).raise_for_status()
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/runs/plan?where=rehearsed%3Dyes&rehearse=true", "Plan a run")
        with page.expect_response("**/migrate-all") as answered:
            page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="The plan")
        expect(plan).to_contain_text(
            re.compile(r"Rehearsed on .*: 2 passed, 0 already .* 1 failed")
        )
        found = answered.value.json()["data"]
        slowest = page.get_by_role("table", name="The slowest tenants").locator("tbody tr")
        expect(slowest).to_contain_text([one["tenant"] for one in found["slowest"]])
        expect(plan).to_contain_text("By the rehearsal, one process needs about")
        causes = page.get_by_role("table", name="Failures by cause").locator("tbody tr")
        expect(causes).to_have_count(1)
        expect(causes).to_contain_text("table … already exists")
        assert violations(page) == []
        page.get_by_role("button", name="Migrate the 2 that passed").click()
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=60_000)
        expect(page.get_by_role("main")).to_contain_text("2 of 2 tenants")
        fleet.tenants[BROKEN].run("DROP TABLE invoices")
        watched.check()
