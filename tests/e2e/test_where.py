"""Labels, and the expressions that select tenants by them."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.checks import too_wide, violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.steps import choose, dialog_button, go, sign_in

pytestmark = pytest.mark.timeout(300)

TENANTS = "/api/admin/tenants"
# Tenants that other tests leave alone.
FREE = (11, 12, 13)
PRO = 14


@pytest.fixture(name="watched")
def _watched_and_refused(context: object, fleet: Fleet) -> Iterator[Watched]:
    """A page of which some expressions are refused."""
    watched = Watched(context.new_page(), fleet.url)  # type: ignore[attr-defined]
    yield watched
    watched.check(may_be_refused=True)


@pytest.fixture(name="page")
def _page(watched: Watched, fleet: Fleet, api: httpx.Client) -> Page:
    for place in FREE:
        label(api, fleet, place, {"plan": "free", "region": "eu"})
    label(api, fleet, PRO, {"plan": "pro"})
    sign_in(watched.page, fleet.url)
    return watched.page


def label(api: httpx.Client, fleet: Fleet, place: int, labels: dict[str, str]) -> None:
    path = f"{TENANTS}/{fleet.tenants[place].id}"
    api.patch(path, json={"labels": labels}).raise_for_status()


def labels_of(api: httpx.Client, fleet: Fleet, place: int) -> object:
    return api.get(f"{TENANTS}/{fleet.tenants[place].id}").json()["data"]["labels"]


def enter(page: Page, expression: str) -> None:
    where = page.get_by_label("Where")
    where.fill(expression)
    where.press("Enter")


def is_explained(page: Page, place: str) -> None:
    """The error is below the field, with its place in the expression."""
    where = page.get_by_label("Where")
    expect(where).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field", has=where).get_by_role("alert")).to_contain_text(place)


class TestLabels:
    def test_are_edited_on_the_page_of_a_tenant(self, page: Page, api: httpx.Client, fleet: Fleet):
        tenant = fleet.tenants[FREE[0]]
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        chips = page.locator(".chips li")
        expect(chips).to_have_text(["plan=free", "region=eu"])
        choose(page, tenant.name, "Labels…")
        box = page.get_by_role("dialog").get_by_label("Labels", exact=True)
        expect(box).to_have_value("plan=free\nregion=eu")
        assert violations(page) == []
        box.fill("plan=pro\nPlan=x")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot be the key of a label")
        expect(box).to_have_attribute("aria-invalid", "true")
        box.fill("plan=pro\ncanary=yes")
        dialog_button(page, "Save")
        expect(chips).to_have_text(["canary=yes", "plan=pro"])
        assert labels_of(api, fleet, FREE[0]) == {"canary": "yes", "plan": "pro"}
        assert violations(page) == []
        page.get_by_role("link", name="canary=yes").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_label("Where")).to_have_value("canary=yes")

    def test_are_changed_of_several_tenants(self, page: Page, api: httpx.Client, fleet: Fleet):
        """The others stay."""
        go(page, "#/tenants?where=plan%3Dfree", "Tenants")
        page.get_by_label("Choose all rows of this page").check()
        bar = page.get_by_role("region", name="Chosen tenants")
        bar.get_by_role("button", name="Label…").click()
        page.get_by_role("dialog").get_by_label("Labels", exact=True).fill("tier=2 plan-")
        dialog_button(page, "Label")
        expect(page.get_by_text("3 tenants labelled.")).to_be_visible()
        expect(page.get_by_text("No tenant matches.")).to_be_visible()
        assert labels_of(api, fleet, FREE[1]) == {"region": "eu", "tier": "2"}


class TestList:
    def test_is_selected_by_an_expression(self, page: Page):
        """In the address, too."""
        go(page, "#/tenants", "Tenants")
        enter(page, "plan in (free, pro) and not region=eu")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody .chip")).to_have_text("plan=pro")
        enter(page, "plan=free")
        expect(page.locator("tbody tr")).to_have_count(len(FREE))
        page.wait_for_url(re.compile("where=plan%3Dfree"))
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(len(FREE))
        assert violations(page) == []
        enter(page, "plan=free and")
        is_explained(page, "at 14")
        expect(page.locator("tbody tr")).to_have_count(0)
        assert violations(page) == []
        enter(page, "plan=free")
        expect(page.locator("tbody tr")).to_have_count(len(FREE))
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("link", name="Plan a run of these").click()
        expect(page.locator("main")).to_contain_text("The 3 active tenants where plan=free.")

    def test_shows_labels_on_a_narrow_screen(self, page: Page):
        page.set_viewport_size({"width": 360, "height": 740})
        go(page, "#/tenants?where=plan%3Dfree", "Tenants")
        page.get_by_role("button", name="All columns").first.click()
        expect(page.locator("tbody .chip").first).to_be_visible()
        assert not too_wide(page)
        assert violations(page) == []


class TestMap:
    def test_is_selected_by_an_expression(self, page: Page, fleet: Fleet):
        go(page, "#/fleet?where=plan%3Dfree", "Fleet")
        number = f"3 tenants of {len(fleet.tenants)}"
        expect(page.get_by_text(number)).to_be_visible()
        matches = page.get_by_role("table", name="Matches").locator("tbody tr")
        expect(matches).to_have_count(len(FREE))
        enter(page, "plan=(")
        is_explained(page, "at 6")
        none = page.get_by_role("region", name="Map").get_by_role("status")
        expect(none).to_have_text(f"0 tenants of {len(fleet.tenants)}")
        page.get_by_role("searchbox", name="Search").focus()
        with page.expect_response("**/schema-status"):
            pass
        page.wait_for_timeout(500)
        expect(page.get_by_role("searchbox", name="Search")).to_be_focused()
        assert violations(page) == []
        enter(page, "")
        expect(page.get_by_role("table", name="Matches")).to_have_count(0)


class TestRun:
    def test_is_planned_for_an_expression(self, page: Page):
        """Its number is known before the plan, and in the address of the form."""
        go(page, "#/runs/plan", "Plan a run")
        enter(page, "plan=free")
        main = page.locator("main")
        expect(main).to_contain_text("The 3 active tenants where plan=free.")
        assert "where=plan%3Dfree" in page.url
        page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="The plan")
        expect(plan).to_contain_text("of 3;")
        expect(plan.locator(".facts")).to_contain_text("plan=free")
        assert violations(page) == []
        enter(page, "plan=free or")
        is_explained(page, "at 13")
        expect(page.get_by_role("region", name="The plan")).to_have_count(0)
        page.get_by_role("button", name="Show the plan").click()
        is_explained(page, "at 13")

    def test_has_a_wave_of_several_values(self, page: Page):
        """One wave on each line, as the command line has one in each option."""
        go(page, "#/runs/plan?where=plan+in+(free%2C+pro)", "Plan a run")
        page.get_by_label("Own waves").check()
        waves = ["plan in (pro, trial)", "region=eu or failing", "100%"]
        page.get_by_label("Waves", exact=True).fill("\n".join(waves))
        named = f"First the tenants where {waves[0]}, then the tenants where {waves[1]}, then"
        expect(page.locator(".words")).to_contain_text(named)
        page.get_by_label("Error rate").fill("0.5 %")
        with page.expect_request("**/migrate-all") as sent:
            page.get_by_role("button", name="Show the plan").click()
        body = sent.value.post_data_json
        assert body["waves"] == waves
        assert (body["maxErrorRate"], body["waveMaxFailures"]) == ("0.5%", [0])
        expect(page.get_by_role("button", name="holds at 0.5% more errors")).to_be_visible()
        expect(page.locator(".facts")).to_contain_text("0.5%")
        assert violations(page) == []
        page.get_by_label("After each wave").select_option(
            label="Hold until a person continues the run"
        )
        page.get_by_role("button", name="Show the plan").click()
        rate = page.get_by_label("Error rate")
        expect(rate).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".field", has=rate).get_by_role("alert")).to_contain_text("hold")
