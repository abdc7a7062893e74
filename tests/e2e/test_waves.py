"""Waves that wait: a person continues a run that holds."""

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.steps import dialog_button, go, keeps_focus, sign_in

pytestmark = pytest.mark.timeout(300)

# Three that are not broken.
CHOSEN = (8, 9, 10)


class TestHold:
    def test_is_shown_and_continued_by_a_person(
        self, context: BrowserContext, fleet: Fleet, api: httpx.Client
    ):
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        chosen = [fleet.tenants[place] for place in CHOSEN]
        for tenant in chosen:
            tenant.fall_behind()
        body = {"tenantIds": [str(one.id) for one in chosen], "waves": [1, "100%"], "hold": True}
        prefer = {"Prefer": "respond-async"}
        run = api.post("/api/admin/tenants/migrate-all", json=body, headers=prefer).json()["data"]

        go(page, f"#/runs/{run['id']}", "Run of")

        head = page.get_by_role("main")
        expect(head.get_by_text("Wave 1 of 2 has ended.")).to_be_visible()
        expect(head.get_by_text("holding", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Continue the run").click()
        expect(page.get_by_role("dialog")).to_contain_text("Wave 2 of 2 starts at once.")
        dialog_button(page, "Continue the run")
        expect(head.get_by_text("succeeded", exact=True).first).to_be_visible()
        expect(head.get_by_text("3 of 3 tenants")).to_be_visible()
        expect(page.get_by_role("button", name="Continue the run")).to_have_count(0)
        keeps_focus(page)
        watched.check()

    def test_is_chosen_with_the_waves_of_a_plan(self, context: BrowserContext, fleet: Fleet):
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/runs/plan?tenant={fleet.tenants[CHOSEN[0]].id}", "Plan a run")
        hold = page.get_by_label("After each wave")
        expect(hold).to_be_hidden()
        page.get_by_label("Canary: 1, then 10 %, then all").check()
        hold.select_option(label="Hold until a person continues the run")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.get_by_role("button", name="holds between waves")).to_be_visible()
        assert violations(page) == []
        watched.check()
