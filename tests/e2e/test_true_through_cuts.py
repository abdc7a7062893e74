"""Every number of every page, while a large run is watched over a bad connection."""

import json
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Fleet, Watched, admin_of, served
from tests.e2e.numbers import (
    RUNS,
    TENANTS,
    Pages,
    at_head,
    between,
    counts,
    data,
    fleet_asked,
    fleet_shown,
    outcomes,
    run_row,
)
from tests.e2e.stage import GONE, TAKEN
from tests.e2e.steps import go, sign_in

pytestmark = pytest.mark.timeout(600)

COUNT = 302
WAVES = [30, "50%", "100%"]
CUTS = 3
CUT_MS = 3_000
# The run of the page is at most this old, with what is polled.
SETTLED_MS = 15_000
RUN_MS_MAX = 180_000
MIGRATE_ALL = f"{TENANTS}/migrate-all"
STATUS = f"{TENANTS}/schema-status"
PREFER = {"Prefer": "respond-async"}
# Nothing answers there.
HOOKS = json.dumps({"ops": {"url": "http://127.0.0.1:9/", "format": "slack"}})
SHORT = 60  # tenants of the short form, which are not broken


@pytest.fixture(name="large", scope="module")
def _large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with served(tmp_path_factory.mktemp("large"), COUNT, TENANTRY_HOOKS=HOOKS) as fleet:
        yield fleet


@pytest.fixture(name="client")
def _client(large: Fleet) -> Iterator[httpx.Client]:
    with admin_of(large) as client:
        yield client


def run_page(page: Page, run_id: str, label: str) -> None:
    go(page, f"#/runs/{run_id}", label)
    expect(page.get_by_role("list", name="Tenants by outcome")).to_contain_text("succeeded")


def settles(page: Page, client: httpx.Client) -> None:
    """The first page shows what the API says, soon after the connection is back."""
    until = time.monotonic() + SETTLED_MS / 1000
    while True:
        before = fleet_asked(client)
        shown = fleet_shown(page)
        try:
            between(before, shown, fleet_asked(client))
        except AssertionError:
            assert time.monotonic() < until
            page.wait_for_timeout(500)
        else:
            return


class TestShortRun:
    def test_has_the_numbers_of_the_api_and_the_databases(
        self, browser: Browser, fleet: Fleet, api: httpx.Client
    ):
        """On every page, at moments of a run of some tenants, and through one cut."""
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        whole = [one for one in range(SHORT + 8) if one not in {*GONE, *TAKEN}][:SHORT]
        for place in whole:
            fleet.tenants[place].fall_behind()
        ids = [str(fleet.tenants[place].id) for place in whole]
        body = {"label": "short", "tenantIds": ids}
        api.post(MIGRATE_ALL, json={**body, "dryRun": True}).raise_for_status()
        run_id = api.post(MIGRATE_ALL, json=body, headers=PREFER).json()["data"]["id"]
        pages = Pages(page, api, fleet, (run_id, "short"), whole[0])
        context.set_offline(True)
        page.wait_for_timeout(1_000)
        context.set_offline(False)
        settles(page, api)
        pages.check()
        run_page(page, run_id, "short")
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)
        assert outcomes(page) == counts(data(api, f"{RUNS}/{run_id}"))
        pages.check()
        watched.check(may_break=True)
        context.close()


@pytest.mark.slow
class TestRun:
    def test_has_the_numbers_of_the_api_and_the_databases(
        self, browser: Browser, large: Fleet, client: httpx.Client
    ):
        """On every page at moments of the run, through three cuts of the connection, and after."""
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        watched = Watched(context.new_page(), large.url)
        page = watched.page
        sign_in(page, large.url)
        some = [str(one.id) for one in large.tenants[:3]]
        client.post("/api/admin/backups", json={"tenantIds": some}).raise_for_status()
        body = {"label": "cuts", "waves": WAVES}
        client.post(MIGRATE_ALL, json={**body, "dryRun": True}).raise_for_status()
        run_id = client.post(MIGRATE_ALL, json=body, headers=PREFER).json()["data"]["id"]
        path = f"{RUNS}/{run_id}"
        pages = Pages(page, client, large, (run_id, "cuts"), 0)
        for cut in range(CUTS):
            run_page(page, run_id, "cuts")
            self.is_between(page, client, large, path)
            context.set_offline(True)
            page.wait_for_timeout(CUT_MS)
            shown = outcomes(page)
            now = counts(data(client, path))
            assert all(shown[name] <= now[name] for name in now), (cut, shown, now)
            context.set_offline(False)
            self.catches_up(page, client, path)
            go(page, "#/fleet", "Fleet")
            context.set_offline(True)
            page.wait_for_timeout(CUT_MS)
            context.set_offline(False)
            settles(page, client)
            pages.check()
        run_page(page, run_id, "cuts")
        expect(page.locator(".head .badge")).to_have_text("failed", timeout=RUN_MS_MAX)
        page.get_by_role("region", name="Durations").wait_for()
        self.has_ended(page, large, client, path)
        pages.check()
        watched.check(may_break=True)
        context.close()

    def is_between(self, page: Page, client: httpx.Client, fleet: Fleet, path: str) -> None:
        """What is shown was so between two answers, and no more succeeded than are at the head."""
        expect(page.get_by_role("list", name="Tenants by outcome")).to_contain_text("succeeded")
        before = counts(data(client, path))
        page.wait_for_timeout(2_000)  # an event of the stream, and a frame
        shown, done = outcomes(page), at_head(fleet)
        after = counts(data(client, path))
        for name, least in before.items():
            assert least <= shown[name] <= after[name], (name, before, shown, after)
        assert shown["succeeded"] <= done

    def catches_up(self, page: Page, client: httpx.Client, path: str) -> None:
        least = counts(data(client, path))["attempted"]
        until = time.monotonic() + SETTLED_MS / 1000
        while outcomes(page)["attempted"] < least:
            assert time.monotonic() < until
            page.wait_for_timeout(200)

    def has_ended(self, page: Page, fleet: Fleet, client: httpx.Client, path: str) -> None:
        run = data(client, path)
        numbers, done = counts(run), at_head(fleet)
        failed = len(TAKEN) + len(GONE)
        assert (numbers["succeeded"], numbers["failed"]) == (done, failed) == (COUNT - failed, 8)
        assert outcomes(page) == numbers
        waves = page.get_by_role("list", name="Waves").get_by_role("listitem")
        expect(waves).to_contain_text(["30 of 30", "121 of 121", "151 of 151"])
        causes = data(client, f"/api/admin/tenants/migration-history/{run['id']}/failure-causes")
        shown = page.get_by_role("list", name="Causes").get_by_role("listitem")
        expect(shown).to_contain_text([f"{one['count']} tenants" for one in causes["items"]])
        tenants = page.get_by_role("region", name="Tenants", exact=True)
        expect(tenants.locator(".pager")).to_contain_text(f"of {COUNT}")

        status = data(client, STATUS)
        assert (status["upToDate"], status["failing"]) == (done, failed)
        go(page, "#/fleet", "Fleet")
        settles(page, client)
        assert fleet_shown(page)["at head"] == done
        go(page, "#/runs", "Runs")
        page.get_by_role("region", name="History").locator("tbody").wait_for()
        expected = {"total": COUNT, "failed": failed, "not attempted": 0}
        assert run_row(page, "cuts") == expected
