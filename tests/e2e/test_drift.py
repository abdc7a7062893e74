"""Drift in the console: found, shown on the map and on the page of the tenant, and mended."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Take, Watched
from tests.e2e.stage import PASSWORD
from tests.e2e.steps import choose, go, keeps_focus, sign_in

pytestmark = pytest.mark.timeout(300)

CHECK_MS_MAX = 60_000
NAME, OWNER = "Drifted Ltd", "drift@owner.example.com"


@dataclass(frozen=True)
class Made:
    """A tenant at the head, and the file that holds its database."""

    id: str
    file: Path

    def run(self, statement: str) -> None:
        """Run a statement in its database, as an operator does by hand."""
        with contextlib.closing(sqlite3.connect(self.file)) as raw, raw:
            raw.execute(statement)


@pytest.fixture(name="tenant")
def _tenant(api: httpx.Client, fleet: Fleet) -> Iterator[Made]:
    """A tenant for one test, removed afterwards: other tests count those of the fleet."""
    owner = {"email": OWNER, "fullName": "O", "password": PASSWORD}
    answer = api.post("/api/admin/tenants", json={"name": NAME, "owner": owner})
    made = answer.raise_for_status().json()["data"]
    (file,) = fleet.settings.data_dir.rglob(f"{made['databaseName']}.db")
    yield Made(made["id"], file)
    path = f"tenants/{made['id']}"
    api.patch(f"/api/admin/{path}", json={"isActive": False}).raise_for_status()
    api.delete(f"/api/admin/{path}", params={"name": NAME}).raise_for_status()
    api.delete(f"/api/admin/deleted-{path}", params={"name": NAME}).raise_for_status()


class TestDrift:
    def test_is_found_shown_and_mended(
        self, watched: Watched, fleet: Fleet, tenant: Made, take: Take
    ):
        page = watched.page
        sign_in(page, fleet.url)
        tenant.run("CREATE TABLE by_hand (id INTEGER)")
        go(page, "#/fleet", "Fleet")
        page.get_by_role("button", name="Check for drift").click()
        # It goes after some seconds; the page that is read again may be later than that.
        announced = page.locator("#announcements")
        expect(announced).to_contain_text("1 drifted", timeout=CHECK_MS_MAX)
        drifted = page.get_by_role("button", name="1 drifted")
        expect(drifted).to_be_visible(timeout=CHECK_MS_MAX)
        drifted.click()
        keeps_focus(page)
        matches = page.get_by_role("region", name="Matches")
        expect(matches.locator("tbody tr")).to_have_count(1)
        expect(matches).to_contain_text("drifted")
        take(page, "drifted-fleet")
        assert violations(page) == []

        matches.get_by_role("link", name=NAME).click()
        differences = page.get_by_role("region", name="Drift", exact=True)
        expect(differences).to_contain_text("by_hand")
        expect(page.locator("h1 + .badge")).to_have_text("drifted")
        take(page, "drifted-tenant")
        assert violations(page) == []

        tenant.run("DROP TABLE by_hand")
        only_it = f"name = '{NAME}'"
        go(page, f"#/fleet?where={quote(only_it)}", "Fleet")
        with page.expect_request("**/drift/check") as sent:
            page.get_by_role("button", name="Check for drift").click()
        assert sent.value.post_data_json == {"where": only_it}
        expect(announced).to_contain_text("1 compared, 0 drifted", timeout=CHECK_MS_MAX)
        go(page, f"#/tenants/{tenant.id}", NAME)
        choose(page, NAME, "Check for drift")
        expect(page.locator("h1 + .badge")).to_have_text("at head", timeout=CHECK_MS_MAX)
        expect(differences).to_have_count(0)


@pytest.mark.usefixtures("tenant")
class TestSearch:
    def test_finds_a_tenant_by_the_address_of_its_owner(self, watched: Watched, fleet: Fleet):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/fleet", "Fleet")
        page.get_by_role("searchbox", name="Search").fill(OWNER.upper())
        matches = page.get_by_role("region", name="Matches")
        expect(matches.get_by_role("link", name=NAME)).to_be_visible()
        expect(matches.locator("tbody tr")).to_have_count(1)
