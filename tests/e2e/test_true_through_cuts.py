"""Every number of every page, while a large run is watched over a bad connection."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import Fleet, Watched, admin_of, served
from tests.e2e.stage import GONE, TAKEN
from tests.e2e.steps import go, sign_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TENANTS = 302
WAVES = [30, "50%", "100%"]
CUTS = 3
CUT_MS = 3_000
# The run of the page is at most this old, with what is polled.
SETTLED_MS = 15_000
RUN_MS_MAX = 180_000
HEAD, BEHIND = "0002", "0001"
MIGRATE_ALL = "/api/admin/tenants/migrate-all"
RUNS = "/api/admin/migration-runs"
STATUS = "/api/admin/tenants/schema-status"


@pytest.fixture(name="large", scope="module")
def _large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with served(tmp_path_factory.mktemp("large"), TENANTS) as fleet:
        yield fleet


@pytest.fixture(name="client")
def _client(large: Fleet) -> Iterator[httpx.Client]:
    with admin_of(large) as client:
        yield client


def data(client: httpx.Client, path: str, **query: object) -> Any:
    return client.get(path, params=query).raise_for_status().json()["data"]  # type: ignore[arg-type]


def at_head(fleet: Fleet) -> int:
    """Return how many databases are at the head, by their own tables."""
    return sum(revision_of(fleet, place) == HEAD for place in range(len(fleet.tenants)))


def revision_of(fleet: Fleet, place: int) -> str | None:
    file = fleet.tenants[place].file
    if not file.exists():
        return None
    with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as raw:
        return str(raw.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def outcomes(page: Page) -> dict[str, int]:
    """Return the numbers of a run's page, by their words."""
    items = page.get_by_role("list", name="Tenants by outcome").get_by_role("listitem")
    texts = [" ".join(one.split()) for one in items.all_inner_texts()]
    ended = re.search(r"([\d,]+) of ([\d,]+) tenants", texts[0])
    assert ended is not None
    found = {"attempted": number(ended[1]), "total": number(ended[2])}
    return found | {text.split(" ", 1)[1]: number(text.split(" ", 1)[0]) for text in texts[1:]}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def counts(run: dict[str, Any]) -> dict[str, int]:
    """Return the same numbers by the API."""
    failed = run["failedCount"] - run["notAttemptedCount"]
    attempted = run["successCount"] + failed
    found = {"attempted": attempted, "total": run["totalCount"]}
    return found | {"succeeded": run["successCount"], "failed": failed}


def totals(page: Page) -> dict[str, int]:
    """Return the totals of the fleet, by their words."""
    buttons = page.get_by_role("list", name="Totals").get_by_role("button")
    pairs = [str(one.get_attribute("aria-label")).split(" ", 1) for one in buttons.all()]
    return {text: number(shown) for shown, text in pairs}


class TestRun:
    def test_has_the_numbers_of_the_api_and_the_databases(
        self, browser: Browser, large: Fleet, client: httpx.Client
    ):
        """At moments of the run, three cuts of the connection, and on every page afterwards."""
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        watched = Watched(context.new_page(), large.url)
        page = watched.page
        sign_in(page, large.url)
        body = {"label": "cuts", "waves": WAVES}
        headers = {"Prefer": "respond-async"}
        begun = client.post(MIGRATE_ALL, json=body, headers=headers).json()["data"]
        path = f"{RUNS}/{begun['id']}"
        go(page, f"#/runs/{begun['id']}", "cuts")
        for cut in range(CUTS):
            self.is_between(page, client, large, path)
            context.set_offline(True)
            page.wait_for_timeout(CUT_MS)
            shown = outcomes(page)
            now = counts(data(client, path))
            assert all(shown[name] <= now[name] for name in now), (cut, shown, now)
            context.set_offline(False)
            self.catches_up(page, client, path)
        expect(page.locator(".head .badge")).to_have_text("failed", timeout=RUN_MS_MAX)
        page.get_by_role("region", name="Durations").wait_for()
        self.has_ended(page, large, client, path)
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
        assert (numbers["succeeded"], numbers["failed"]) == (done, failed) == (TENANTS - failed, 8)
        assert outcomes(page) == numbers
        waves = page.get_by_role("list", name="Waves").get_by_role("listitem")
        expect(waves).to_contain_text(["30 of 30", "121 of 121", "151 of 151"])
        causes = data(client, f"/api/admin/tenants/migration-history/{run['id']}/failure-causes")
        shown = page.get_by_role("list", name="Causes").get_by_role("listitem")
        expect(shown).to_contain_text([f"{one['count']} tenants" for one in causes["items"]])
        tenants = page.get_by_role("region", name="Tenants", exact=True)
        expect(tenants.locator(".pager")).to_contain_text(f"of {TENANTS}")

        go(page, "#/fleet", "Fleet")
        status = data(client, STATUS)
        found = totals(page)
        assert found["tenants"] == TENANTS
        assert found["at head"] == status["upToDate"] == done
        assert found["failing"] == status["failing"] == failed
        assert (found["behind"], found["suspended"]) == (0, status["suspended"])
        now = page.get_by_role("region", name="Now")
        expect(now).to_contain_text(f"{done} succeeded, {failed} failed.")
        expect(now).to_contain_text(f"{failed} tenants")
        expect(now).to_contain_text(f"{failed} of {TENANTS} tenants not at the head")

        go(page, "#/runs", "Runs")
        row = page.get_by_role("region", name="History").get_by_role("row", name="cuts")
        expect(row.locator("td.number")).to_contain_text([str(TENANTS), str(failed), "0"])

        go(page, "#/tenants?isFailing=true", "Tenants")
        expect(page.locator("tbody tr")).to_have_count(failed)
        go(page, f"#/tenants?revision={status['head']}", "Tenants")
        expect(page.locator(".pager").first).to_contain_text(f"of {done}")
