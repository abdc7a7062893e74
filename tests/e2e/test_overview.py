"""The first page, and the lists: what an operator sees first, and what can be done with rows."""

import re
import time

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.e2e.checks import tab_faults, violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import TAKEN
from tests.e2e.steps import choose, dialog_button, go, sign_in

pytestmark = pytest.mark.timeout(300)

RUN_MS_MAX = 60_000
JOB_SECONDS_MAX = 60
JUMP = 10 * 60
TENANTS = "/api/admin/tenants"
MIGRATE_ALL = f"{TENANTS}/migrate-all"
RUNS = "/api/admin/migration-runs"
LISTS = {
    "#/tenants": "Tenants",
    "#/tenants/": "Tenant",
    "#/runs": "Runs",
    "#/backups": "Backups",
    "#/admins": "Admins",
    "#/health": "Health",
}
UNSORTED = {"Id", "Request id", "Run"}
CHOSEN = (8, 9)  # tenants that other tests leave alone
HELD = 100  # the tenant that keeps a run from its end
BROKEN = TAKEN[:2]


@pytest.fixture(name="page")
def _page(watched: Watched, fleet: Fleet) -> Page:
    sign_in(watched.page, fleet.url)
    return watched.page


def data(answer: httpx.Response) -> dict[str, object]:
    found: dict[str, object] = answer.raise_for_status().json()["data"]
    return found


def break_some(fleet: Fleet) -> list[str]:
    """Let the next run of two tenants fail; return their ids."""
    for place in BROKEN:
        fleet.tenants[place].fall_behind()
        fleet.tenants[place].run("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
    return [str(fleet.tenants[place].id) for place in BROKEN]


def run_of(api: httpx.Client, ids: list[str], **options: object) -> dict[str, object]:
    """Migrate tenants; return the run, which has ended."""
    data(api.post(MIGRATE_ALL, json={"tenantIds": ids, **options}))
    return data(api.get(RUNS, params={"pageSize": 1}))["items"][0]  # type: ignore[index]


def mend(api: httpx.Client, fleet: Fleet) -> None:
    for place in BROKEN:
        fleet.tenants[place].run("DROP TABLE IF EXISTS invoices")
    run_of(api, [str(fleet.tenants[place].id) for place in BROKEN])


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name="Now").get_by_role("region", name=name, exact=True)


class TestHome:
    def test_shows_what_needs_an_operator(self, page: Page, api: httpx.Client, fleet: Fleet):
        """Each number is that of the API, and the retry is of what is failing."""
        run_of(api, break_some(fleet), label="first page")
        page.reload()
        run = panel(page, "Last run")
        expect(run.get_by_role("link", name="first page")).to_be_visible()
        expect(run).to_contain_text("Of 2 tenants: 0 succeeded, 2 failed.")
        status = data(api.get(f"{TENANTS}/schema-status"))
        left = int(str(status["behind"])) + int(str(status["unknown"]))
        expect(panel(page, "Pending")).to_contain_text(f"{left} of {status['total']} tenants")
        expect(panel(page, "Failing")).to_contain_text(f"{status['failing']} tenants")
        backups = data(api.get("/api/admin/backups"))
        oldest = backups["oldestCustomerName"] or "No tenant was backed up"
        expect(panel(page, "Oldest backup")).to_contain_text(str(oldest))
        expect(panel(page, "Workers")).to_contain_text("1 worker alive")
        assert violations(page) == []
        retry = panel(page, "Failing").get_by_role("link", name="Plan retry: 0002").first
        retry.click()
        expect(page.locator("main")).to_contain_text("The 2 tenants that failed with")
        mend(api, fleet)

    def test_shows_a_worker_that_is_silent(
        self, context: BrowserContext, api: httpx.Client, fleet: Fleet
    ):
        """Nothing is in work in it."""
        for tenant in fleet.tenants[:60]:
            if tenant.file.exists():
                tenant.fall_behind()
        headers = {"Prefer": "respond-async"}
        api.post(MIGRATE_ALL, json={}, headers=headers).raise_for_status()
        time.sleep(1)
        fleet.kill()
        fleet.start_again()
        time.sleep(6)
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        expect(panel(page, "Workers")).to_contain_text("silent")
        workers: list[dict[str, object]] = data(api.get("/api/admin/health"))["workers"]  # type: ignore[assignment]
        assert {one["inWorkCount"] for one in workers if not one["isAlive"]} == {0}
        go(page, "#/health", "Health")
        silent = page.get_by_role("row").filter(has_text="silent").first
        expect(silent.locator("td").nth(3)).to_have_text("0", timeout=RUN_MS_MAX)
        watched.check()
        self.until_idle(api)

    def until_idle(self, api: httpx.Client) -> None:
        while data(api.get(RUNS, params={"isFinished": "false"}))["items"]:
            time.sleep(0.3)


class TestTable:
    def test_is_sorted(self, page: Page, api: httpx.Client):
        """By all rows, not only by those of the page; a second press reverses the order."""
        go(page, "#/tenants", "Tenants")
        table = page.get_by_role("table", name="Tenants")
        name = table.get_by_role("button", name="Name")
        name.click()
        header = table.get_by_role("columnheader", name="Name")
        expect(header).to_have_attribute("aria-sort", "ascending")
        name.click()
        expect(header).to_have_attribute("aria-sort", "descending")
        total = data(api.get(TENANTS))["totalCount"]
        query = {"page": total, "pageSize": 1}
        last = data(api.get(TENANTS, params=query))["items"][0]["name"]  # type: ignore[index]
        shown = table.get_by_role("row").nth(1)
        expect(shown).to_contain_text(re.compile(r"Ψωμί|" + re.escape(last)))
        assert violations(page) == []

    @pytest.mark.parametrize(("fragment", "heading"), sorted(LISTS.items()))
    def test_is_sorted_by_every_column(
        self, page: Page, api: httpx.Client, fleet: Fleet, fragment: str, heading: str
    ):
        """On every page; except by what has no order."""
        run_of(api, [str(fleet.tenants[CHOSEN[0]].id)])
        data(api.post(f"{TENANTS}/{fleet.tenants[CHOSEN[0]].id}/backup", json={}))
        if heading == "Tenant":
            fragment += str(fleet.tenants[CHOSEN[0]].id)
            heading = fleet.tenants[CHOSEN[0]].name
        go(page, fragment, heading)
        expect(page.locator("main").locator(".skeleton, [aria-busy=true]")).to_have_count(0)
        heads = page.locator("main th:not(:has(.sort)):not(.actions):not(.choose)")
        assert {one.inner_text() for one in heads.all()} <= UNSORTED
        for sort in page.locator("main th .sort").all():
            sort.click()
        expect(page.locator("main th[aria-sort=ascending]").first).to_be_visible()

    def test_has_pages_to_the_end(self, page: Page, api: httpx.Client, fleet: Fleet):
        """Of the tenants of a run: no row is only counted."""
        ids = [str(one.id) for one in fleet.tenants[:130] if one.file.exists()]
        run = run_of(api, ids)
        go(page, f"#/runs/{run['id']}", "Run of")
        tenants = page.get_by_role("region", name="Tenants", exact=True)
        tenants.get_by_role("button", name="Last").click()
        expect(tenants.locator(".pager")).to_contain_text(f"of {len(ids)}")
        assert page.get_by_text(re.compile("^And .* more")).count() == 0
        expect(tenants.locator("tbody tr")).to_have_count(len(ids) - 100)
        tenants.get_by_label("Outcome").select_option("failed")
        expect(tenants).to_contain_text(re.compile("No tenant matches|failed"))

    def test_plans_a_run_of_chosen_tenants(self, page: Page, api: httpx.Client, fleet: Fleet):
        for place in CHOSEN:
            fleet.tenants[place].fall_behind()
        self.choose_two(page, fleet)
        bar = page.get_by_role("region", name="Chosen tenants")
        expect(bar).to_contain_text("2 tenants chosen")
        assert violations(page) == []
        assert tab_faults(page) == []
        bar.get_by_role("button", name="Plan a run…").click()
        expect(page.locator("main")).to_contain_text("The 2 tenants that you have chosen.")
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_role("button", name="Migrate 2 tenants").click()
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)
        run = data(api.get(RUNS, params={"pageSize": 1}))["items"][0]  # type: ignore[index]
        assert (run["totalCount"], run["successCount"]) == (2, 2)

    def test_backs_up_and_suspends_chosen_tenants(
        self, page: Page, api: httpx.Client, fleet: Fleet
    ):
        self.choose_two(page, fleet)
        bar = page.get_by_role("region", name="Chosen tenants")
        bar.get_by_role("button", name="Back up").click()
        expect(page.get_by_text("2 backups queued.")).to_be_visible()
        self.choose_two(page, fleet)
        bar.get_by_role("button", name="Suspend…").click()
        expect(page.get_by_role("dialog")).to_contain_text("Suspend 2 tenants?")
        dialog_button(page, "Suspend")
        expect(page.get_by_text("2 tenants suspended.")).to_be_visible()
        expect(bar).to_be_hidden()
        paths = [f"{TENANTS}/{fleet.tenants[place].id}" for place in CHOSEN]
        assert [data(api.get(path))["isActive"] for path in paths] == [False, False]
        self.choose_two(page, fleet)
        bar.get_by_role("button", name="Activate").click()
        expect(page.get_by_text("2 tenants activated.")).to_be_visible()
        assert [data(api.get(path))["isActive"] for path in paths] == [True, True]

    def choose_two(self, page: Page, fleet: Fleet) -> None:
        """The choice outlives a page."""
        go(page, "#/runs", "Runs")
        go(page, "#/tenants?page=1", "Tenants")
        left = {fleet.tenants[place].name for place in CHOSEN}
        rows = page.get_by_role("table", name="Tenants")
        while True:
            rows.wait_for()
            first = rows.get_by_role("row").nth(1).inner_text()
            for name in sorted(left):
                box = page.get_by_role("checkbox", name=f"Choose {name}", exact=True)
                if box.count() == 1:
                    box.check()
                    left.remove(name)
            if not left:
                return
            page.get_by_role("button", name="Next").click()
            expect(rows.get_by_role("row").nth(1)).not_to_have_text(first)

    def test_keeps_its_place_on_back(self, page: Page):
        go(page, "#/tenants", "Tenants")
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".pager").first).to_contain_text("51")
        link = page.locator("tbody td.name a").nth(40)
        name = link.inner_text()
        link.scroll_into_view_if_needed()
        page.wait_for_timeout(300)
        place = page.evaluate("scrollY")
        assert place > 0
        link.click()
        page.get_by_role("heading", name=name, level=1).wait_for()
        assert page.evaluate("scrollY") == 0
        page.go_back()
        expect(page.locator(".pager").first).to_contain_text("51")
        page.wait_for_function("y => Math.abs(scrollY - y) < 3", arg=place)

    def test_unfolds_its_columns_on_a_narrow_screen(self, page: Page):
        page.set_viewport_size({"width": 360, "height": 740})
        go(page, "#/tenants", "Tenants")
        server = page.get_by_role("columnheader", name="Server")
        expect(page.locator("tbody tr").first).to_be_visible()
        expect(server).to_be_hidden()
        page.get_by_role("button", name="All columns").first.click()
        expect(server).to_be_visible()
        assert violations(page) == []


class TestRetry:
    def test_is_of_what_is_still_failing(self, page: Page, api: httpx.Client, fleet: Fleet):
        """Not of what failed when the run ended."""
        ids = break_some(fleet)
        run = run_of(api, ids)
        fleet.tenants[BROKEN[0]].run("DROP TABLE invoices")
        run_of(api, ids[:1])
        go(page, f"#/runs/plan?retryOf={run['id']}", "Plan a run")
        expect(page.locator("main")).to_contain_text("The 1 tenant that failed")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.get_by_role("button", name=re.compile("^Migrate 1 tenant"))).to_be_visible()
        mend(api, fleet)
        go(page, "#/runs", "Runs")
        go(page, f"#/runs/plan?retryOf={run['id']}", "Plan a run")
        expect(page.locator("main")).to_contain_text("nothing is left to retry")


class TestStoredPlans:
    def test_are_listed(self, page: Page, api: httpx.Client):
        made = data(api.post(MIGRATE_ALL, json={"dryRun": True, "label": "reviewed"}))
        plan: dict[str, object] = made["plan"]  # type: ignore[assignment]
        go(page, "#/runs", "Runs")
        plans = page.get_by_role("region", name="Stored plans")
        link = plans.get_by_role("link", name="reviewed").first
        expect(link).to_have_attribute("href", f"#/runs/plan?plan={plan['id']}")
        link.click()
        page.get_by_role("heading", name="reviewed", level=1).wait_for()


class TestClock:
    def test_is_that_of_the_service(self, page: Page, api: httpx.Client, fleet: Fleet):
        """The browser's may jump while one is signed in."""
        page.clock.set_system_time(time.time() + JUMP)
        with page.expect_response("**/api/admin/health"):
            pass
        tenant = fleet.tenants[CHOSEN[0]]
        api.patch(f"{TENANTS}/{tenant.id}", json={"requestsPerMinute": 100}).raise_for_status()
        go(page, "#/audit", "Audit log")
        expect(page.locator("tbody time").first).to_have_text("just now")


class TestNumbers:
    def test_of_a_cancelled_run_leave_out_what_was_not_attempted(
        self, page: Page, api: httpx.Client, fleet: Fleet
    ):
        """In its waves, too."""
        for tenant in fleet.tenants[:150]:
            if tenant.file.exists():
                tenant.fall_behind()
        headers = {"Prefer": "respond-async"}
        body = {"waves": [10, "100%"]}
        with fleet.tenants[HELD].locked():
            run_id = data(api.post(MIGRATE_ALL, json=body, headers=headers))["id"]
            go(page, f"#/runs/{run_id}", "Run of")
            outcomes = page.get_by_role("list", name="Tenants by outcome")
            expect(outcomes).to_contain_text(re.compile(r"[1-9]\d* succeeded"), timeout=RUN_MS_MAX)
            api.post(f"{TENANTS}/migration-history/{run_id}/cancel", json={}).raise_for_status()
        expect(page.locator(".head .badge")).to_have_text("cancelled", timeout=RUN_MS_MAX)
        expect(page.get_by_role("region", name="Durations")).to_be_visible()
        run = data(api.get(f"{RUNS}/{run_id}"))
        failed = int(str(run["failedCount"])) - int(str(run["notAttemptedCount"]))
        attempted = int(str(run["successCount"])) + failed
        expect(outcomes).to_contain_text(f"{attempted} of {run['totalCount']} tenants")
        expect(outcomes).not_to_contain_text("100 %")
        second = page.get_by_role("list", name="Waves").get_by_role("listitem").nth(1)
        expect(second).to_contain_text(f"{run['notAttemptedCount']} not attempted")
        expect(second.locator(".is-skipped")).to_have_count(1)

    def test_of_a_budget_that_is_used_up(self, page: Page, api: httpx.Client, fleet: Fleet):
        run = run_of(api, break_some(fleet), maxFailures=0)
        go(page, f"#/runs/{run['id']}", "Run of")
        expect(page.locator(".budget")).to_contain_text("more than the 0 allowed")
        mend(api, fleet)


class TestRestore:
    def test_in_place_says_where_the_tenant_is_now(
        self, page: Page, api: httpx.Client, fleet: Fleet
    ):
        """On a server of the other engine, it is not offered."""
        tenant = fleet.tenants[CHOSEN[1]]
        job = data(api.post(f"{TENANTS}/{tenant.id}/backup", json={}))
        until = time.monotonic() + JOB_SECONDS_MAX
        while data(api.get(f"/api/admin/jobs/{job['id']}"))["finishedAt"] is None:
            assert time.monotonic() < until
            time.sleep(0.2)
        go(page, f"#/backups?search={tenant.name}", "Backups")
        archives = page.get_by_role("region", name="Archives")
        name = archives.locator("td.wide").first.inner_text()
        choose(page, name, "Restore…")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("It stays on the tenant server default.")
        page.keyboard.press("Escape")

        def other(route: Route) -> None:
            answer = route.fetch()
            body = answer.json()
            for one in body["data"]["servers"]:
                one["engine"] = "postgresql"
            route.fulfill(response=answer, json=body)

        page.route("**/api/admin/health", other)
        choose(page, name, "Restore…")
        expect(dialog).to_contain_text(
            f"{tenant.name} is on the tenant server default of PostgreSQL"
        )
        expect(dialog.get_by_role("button", name="Restore in place")).to_have_count(0)
        page.unroute_all(behavior="ignoreErrors")
