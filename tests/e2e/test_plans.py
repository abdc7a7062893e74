"""Plans: what an operator has seen is what runs."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import ADMIN
from tests.e2e.steps import go, sign_in

pytestmark = pytest.mark.timeout(150)

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
