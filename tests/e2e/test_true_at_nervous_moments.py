"""The moments at which an operator must not be misled."""

import re
import time

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import ADMIN, GONE, PASSWORD, TAKEN, Seeded
from tests.e2e.steps import choose, dialog_button, focused, go, sign_in

pytestmark = pytest.mark.timeout(300)

RUN_MS_MAX = 60_000
TWO_HOURS = 2 * 60 * 60
SPARE = 5  # a tenant that other tests leave alone


@pytest.fixture(name="page")
def _page(watched: Watched, fleet: Fleet) -> Page:
    sign_in(watched.page, fleet.url)
    return watched.page


def begin(api: httpx.Client, tenants: list[Seeded] | None = None) -> str:
    """Begin a run of some tenants, or of all, and return its id."""
    body = {} if tenants is None else {"tenantIds": [str(one.id) for one in tenants]}
    headers = {"Prefer": "respond-async"}
    answer = api.post("/api/admin/tenants/migrate-all", json=body, headers=headers)
    return str(answer.json()["data"]["id"])


def until_ended(api: httpx.Client, run_id: str) -> None:
    """Wait for the end of a run."""
    path = f"/api/admin/tenants/migration-history/{run_id}"
    while api.get(path, params={"details": "none"}).json()["data"]["finishedAt"] is None:
        time.sleep(0.1)


def refuse_once(page: Page, pattern: str) -> list[str]:
    """Answer the first request to an address with a 429; return the list that gets it."""
    refused: list[str] = []

    def refuse(route: Route) -> None:
        if refused:
            route.continue_()
            return
        refused.append(route.request.url)
        body = '{"success":false,"data":null,"message":"Too many requests."}'
        route.fulfill(status=429, headers={"Retry-After": "1"}, body=body)

    page.route(pattern, refuse)
    return refused


class TestStart:
    @pytest.mark.parametrize("fault", ["missing", "throws"])
    def test_that_fails_says_what_to_do(self, context: BrowserContext, fleet: Fleet, fault: str):
        """A proxy or an extension can block the first module."""

        def break_(route: Route) -> None:
            if fault == "missing":
                route.abort()
            else:
                route.fulfill(content_type="text/javascript", body="throw new Error('x')")

        page = context.new_page()
        page.route(re.compile(r"/app\.js"), break_)
        page.goto(f"{fleet.url}/console")

        expect(page.get_by_text("This page has not started.")).to_be_visible()

    def test_of_a_write_without_an_answer_ends(self, context: BrowserContext, fleet: Fleet):
        """It is not known whether it was done."""
        page = context.new_page()
        page.clock.install()
        page.route("**/auth/login", lambda _route: None)
        page.goto(f"{fleet.url}/console")
        page.get_by_label("E-mail address").fill(ADMIN)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_timeout(300)
        page.clock.fast_forward(16_000)

        expect(page.get_by_text("it is not known whether it was done")).to_be_visible()


class TestPlan:
    def test_is_of_the_form_that_is_seen(self, page: Page):
        """An edit while the plan is read discards the answer."""
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/migrate-all", hold)
        go(page, "#/runs/plan", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_text("Reading the tenants").wait_for()
        page.get_by_label("Failure budget").fill("0")
        for route in held:
            route.continue_()
        page.unroute("**/migrate-all")
        page.wait_for_timeout(1_500)
        expect(page.get_by_role("button", name=re.compile("^Migrate"))).to_have_count(0)

        page.get_by_role("button", name="Show the plan").click()
        migrate = page.get_by_role("button", name=re.compile("^Migrate"))
        expect(migrate).to_contain_text("stop after 1 failure")

    def test_shows_the_warnings_about_a_revision(self, page: Page, api: httpx.Client):
        """In words, also while the revision is folded."""
        message = "Drops orders: its data is lost."
        found = {"rule": "drop-table", "message": message, "statementNumber": 2, "table": "orders"}
        revision = {"revision": "0009", "engine": "sqlite", "runsAs": "recorded", "isCut": False}
        sql = "SELECT 1;\n\nDROP TABLE orders"

        body = api.post("/api/admin/tenants/migrate-all", json={"dryRun": True}).json()
        folded = {**revision, "revision": "0008", "sql": sql, "findings": [found, found]}
        silent = {**revision, "sql": "SELECT 1", "findings": []}
        body["data"]["revisions"] = [folded, silent]
        page.route("**/migrate-all", lambda route: route.fulfill(json=body))
        go(page, "#/runs/plan", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        summary = page.locator("summary")
        expect(summary).to_have_text([re.compile("0008.*2 warnings"), re.compile("recorded$")])
        summary.first.click()
        warnings = page.get_by_role("list", name="Warnings about 0008").get_by_role("listitem")
        expect(warnings).to_have_text([f"Statement 2 {message}"] * 2)
        assert violations(page) == []

    def test_starts_one_run_for_two_presses(self, context: BrowserContext, fleet: Fleet):
        """The first one has no answer yet."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        go(page, "#/runs/plan", "Plan a run")
        page.get_by_role("button", name="Show the plan").click()
        migrate = page.get_by_role("button", name=re.compile("^Migrate"))
        expect(migrate).to_contain_text("Migrate")
        page.route("**/migrate-all", hold)
        migrate.click()
        migrate.click()
        page.wait_for_timeout(500)

        assert len(held) == 1
        body = '{"success":false,"data":null,"message":"Try it later."}'
        held[0].fulfill(status=429, headers={"Retry-After": "1"}, body=body)
        expect(page.get_by_text("Try it later.")).to_be_visible()
        watched.check(may_be_refused=True)

    def test_warns_of_a_run_that_is_not_finished(self, page: Page, api: httpx.Client, fleet: Fleet):
        """A slim bar on every page, too."""
        slow = fleet.tenants[SPARE]
        slow.fall_behind()
        with slow.locked():
            run_id = begin(api, [slow])
            go(page, "#/tenants", "Tenants")
            bar = page.get_by_role("region", name="Unfinished runs")
            expect(bar.get_by_role("link")).to_have_attribute("href", f"#/runs/{run_id}")
            go(page, "#/runs/plan", "Plan a run")
            expect(page.locator("main")).to_contain_text("1 run is not finished")
        until_ended(api, run_id)


class TestDocs:
    def test_ask_before_a_request_that_changes_something(
        self, watched: Watched, page: Page, fleet: Fleet
    ):
        """And say for whom it is sent."""
        page.goto(f"{fleet.url}/docs#migrateAllMigrations")
        operation = page.locator("details[open]")
        operation.get_by_role("button", name="Send POST").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"the admin {ADMIN}, who may change every tenant")
        assert not any("migrate-all" in url for url in watched.requests)
        dialog_button(page, "Cancel")
        page.wait_for_timeout(500)
        assert not any("migrate-all" in url for url in watched.requests)


class TestFleet:
    def test_counts_failing_tenants_by_their_latest_attempt(
        self, page: Page, api: httpx.Client, fleet: Fleet
    ):
        """A newer run for another tenant hides nothing; the totals add up; pages agree."""
        broken, fine = fleet.tenants[TAKEN[0]], fleet.tenants[SPARE]
        broken.fall_behind()
        broken.run("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
        for one in (broken, fine):
            api.post("/api/admin/tenants/migrate-all", json={"tenantIds": [str(one.id)]})
        page.reload()
        totals = page.get_by_role("list", name="Totals").get_by_role("button")
        expect(totals.first).to_be_visible()
        names = [str(one.get_attribute("aria-label")) for one in totals.all()]
        numbers = {
            text: int(number.replace(",", ""))
            for number, text in (name.split(" ", 1) for name in names)
        }
        everything = numbers.pop("tenants")
        numbers.pop("migrating", None)
        assert numbers["failing"] >= 1
        assert sum(numbers.values()) == everything

        go(page, f"#/tenants?search={broken.id}", "Tenants")
        expect(page.get_by_role("row").nth(1)).to_contain_text("failing")
        page.get_by_role("link", name=broken.name).click()
        expect(page.locator(".head .badge")).to_have_text("failing")
        expect(page.get_by_role("region", name="Migrations")).to_contain_text("already exists")
        broken.run("DROP TABLE invoices")

    def test_is_walked_with_arrow_keys(self, page: Page, fleet: Fleet):
        """Enter opens the panel of a tenant, and Escape returns to the map."""
        page.locator("canvas[data-cells]").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        panel = page.get_by_role("complementary", name="Chosen tenant")
        expect(panel.get_by_role("heading")).to_have_text(fleet.tenants[1].name)
        assert focused(page) == "H2"
        page.keyboard.press("Escape")
        assert focused(page) == "CANVAS"


class TestRun:
    def test_that_stalls_shows_it(self, page: Page, api: httpx.Client, fleet: Fleet):
        """The rate is measured up to now, and tenants in work have their seconds."""
        slow = fleet.tenants[SPARE]
        slow.fall_behind()
        with slow.locked():
            run_id = begin(api, [slow])
            page.evaluate("id => { location.hash = `#/runs/${id}`; }", run_id)
            strip = page.get_by_role("list", name="Tenants in work")
            expect(strip).to_contain_text(slow.name, timeout=RUN_MS_MAX)
            expect(strip).to_contain_text(
                re.compile(r"([5-9]\.\d|[1-9]\d(\.\d)?) s"), timeout=RUN_MS_MAX
            )
            rate = page.locator(".rate")
            expect(rate).to_contain_text("no tenant has ended for", timeout=RUN_MS_MAX)
            expect(rate).not_to_contain_text("left")
        expect(page.locator(".head .badge")).to_have_text("succeeded", timeout=RUN_MS_MAX)

    def test_is_watched_through_a_rate_limit(
        self, context: BrowserContext, api: httpx.Client, fleet: Fleet
    ):
        """A 429 is retried when it says."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        refused = refuse_once(page, "**/events")
        for place in set(range(40)) - set(GONE):
            fleet.tenants[place].fall_behind()
        run_id = begin(api)
        page.evaluate("id => { location.hash = `#/runs/${id}`; }", run_id)
        expect(page.get_by_role("region", name="Durations")).to_be_visible(timeout=RUN_MS_MAX)
        assert len(refused) == 1
        watched.check(may_be_refused=True)


class TestSecret:
    def test_stays_until_it_is_confirmed(self, context: BrowserContext, fleet: Fleet):
        """Neither Back nor the end of the session takes it away."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{fleet.tenants[SPARE].id}", fleet.tenants[SPARE].name)
        page.get_by_role("button", name="Issue a key").click()
        page.get_by_role("dialog").get_by_role("button", name="Issue").click()
        key = page.get_by_role("dialog").get_by_label("API key", exact=True)
        secret = key.input_value()
        page.evaluate("history.back()")
        expect(key).to_have_value(secret)
        page.evaluate("sessionStorage.clear()")
        page.wait_for_timeout(6_000)
        expect(key).to_have_value(secret)
        dialog_button(page, "I have copied it")
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        watched.check(may_be_refused=True)


class TestSession:
    def test_begins_whatever_the_clock_of_the_browser_says(
        self, context: BrowserContext, fleet: Fleet
    ):
        watched = Watched(context.new_page(), fleet.url)
        watched.page.clock.install(time=time.time() + TWO_HOURS)
        sign_in(watched.page, fleet.url)
        go(watched.page, "#/health", "Health")
        watched.check()

    def test_is_renewed_while_the_console_is_used(self, context: BrowserContext, fleet: Fleet):
        """Before the token expires, and in every tab."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        page.clock.install()
        sign_in(page, fleet.url)
        page.clock.fast_forward("29:00")
        page.keyboard.press("Tab")
        with page.expect_response("**/api/admin/auth/renew") as renewed:
            page.clock.fast_forward("02:00")
        assert renewed.value.ok
        watched.check()

    def test_is_taken_over_by_a_new_tab(self, context: BrowserContext, page: Page, fleet: Fleet):
        """Without a cookie; a sign-out ends both."""
        other = context.new_page()
        other.goto(f"{fleet.url}/console")
        expect(other.get_by_role("heading", name="Fleet", level=1)).to_be_visible()
        other.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        assert context.cookies() == []

    def test_says_when_its_end_was_not_confirmed(self, context: BrowserContext, fleet: Fleet):
        """The token can still be valid, and may be the reason for the sign-out."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)

        def refuse(route: Route) -> None:
            body = '{"success":false,"data":null,"message":"Try it later."}'
            route.fulfill(status=429, headers={"Retry-After": "1"}, body=body)

        page.route("**/api/admin/auth/logout", refuse)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("the service did not confirm")).to_be_visible()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        watched.check(may_be_refused=True)


class TestAddress:
    def test_keeps_filters_in_the_fragment(self, page: Page, fleet: Fleet):
        """On the first page too: nothing typed reaches the server's log, and a reload keeps it."""
        name = fleet.tenants[SPARE].name
        page.get_by_role("searchbox", name="Search").fill(name)
        page.wait_for_url(re.compile(r"/console#/fleet\?search="))
        page.reload()
        expect(page.get_by_role("searchbox", name="Search")).to_have_value(name)

    def test_with_a_crafted_id_asks_no_other_endpoint(self, watched: Watched, page: Page):
        before = len(watched.requests)
        for crafted in ("..%2Fadmins", "..", "%2e%2e%2fadmins"):
            go(page, f"#/tenants/{crafted}", "Page not found")
        later = watched.requests[before:]
        assert not [url for url in later if url.endswith(("/api/admin/admins", "/api/admin/"))]

    def test_shows_the_last_page_when_its_only_row_is_deleted(
        self, page: Page, api: httpx.Client, fleet: Fleet
    ):
        tenant = fleet.tenants[SPARE + 1]
        path = f"/api/admin/tenants/{tenant.id}/users"
        for number in range(20):
            user = {"email": f"u{number}@example.com", "fullName": "A User", "password": PASSWORD}
            assert api.post(path, json=user).status_code == 201
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        users = page.get_by_role("region", name="Users")
        users.get_by_role("button", name="Next").click()
        expect(users.locator(".pager")).to_contain_text(re.compile("21.21 of 21"))
        last = users.locator("tbody td").first.inner_text()
        choose(page, last, "Delete…")
        assert focused(page) == "BUTTON"
        assert page.evaluate("document.activeElement.textContent") == "Cancel"
        dialog_button(page, "Delete")
        expect(users.locator("tbody tr")).to_have_count(20)
        assert focused(page) != "BODY"


class TestForm:
    def test_ties_an_error_to_its_field(self, page: Page):
        go(page, "#/tenants/new", "New tenant")
        page.get_by_label("Name", exact=True).fill("Acme")
        page.get_by_label("Full name").fill("Grace Hopper")
        page.get_by_label("E-mail address").fill("grace")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create tenant").click()
        email = page.get_by_label("E-mail address")
        expect(email).to_have_attribute("aria-invalid", "true")
        expect(email).to_be_focused()
        described = email.get_attribute("aria-describedby") or ""
        expect(page.locator(f"#{described.split()[-1]}")).to_be_visible()

    def test_ties_a_conflict_to_its_field(self, context: BrowserContext, fleet: Fleet):
        """The error of the service names no member; its code does."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/tenants/new", "New tenant")
        name = page.get_by_label("Name", exact=True)
        name.fill(fleet.tenants[0].name)
        page.get_by_label("Full name").fill("Grace Hopper")
        page.get_by_label("E-mail address").fill("grace@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create tenant").click()
        expect(name).to_be_focused()
        shown = page.locator(".field", has=name).get_by_role("alert")
        expect(shown).to_be_visible()
        assert shown.get_attribute("id") in (name.get_attribute("aria-describedby") or "")
        watched.check(may_be_refused=True)


class TestRateLimit:
    def test_delays_a_page(self, context: BrowserContext, fleet: Fleet):
        """A read is tried again when the service says."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        refused = refuse_once(page, "**/audit-log?*")
        go(page, "#/audit", "Audit log")
        expect(page.get_by_role("row").nth(1)).to_be_visible()
        assert len(refused) == 1
        watched.check(may_be_refused=True)


class TestTable:
    def test_keeps_its_columns_beside_a_long_name(self, page: Page, api: httpx.Client):
        """On a narrow screen too, the actions can be reached."""
        owner = {"email": "o@example.com", "fullName": "O", "password": PASSWORD}
        tenant = {"name": "Long " + "n" * 90, "owner": owner}
        made = api.post("/api/admin/tenants", json=tenant).json()["data"]
        page.set_viewport_size({"width": 360, "height": 740})
        go(page, f"#/tenants?search={made['id']}", "Tenants")
        state = page.locator("tbody td").nth(1)
        expect(state).to_be_in_viewport(ratio=1)
        go(page, f"#/tenants/{made['id']}", tenant["name"])
        user = page.get_by_role("button", name="Actions for o@example.com")
        user.scroll_into_view_if_needed()
        expect(user).to_be_in_viewport(ratio=1)
        page.get_by_role("button", name=f"Actions for {tenant['name']}").click()
        expect(page.get_by_role("menuitem").last).to_be_in_viewport(ratio=1)
        page.keyboard.press("Escape")
        api.patch(f"/api/admin/tenants/{made['id']}", json={"isActive": False})
        name = {"name": tenant["name"]}
        api.delete(f"/api/admin/tenants/{made['id']}", params=name)
        api.delete(f"/api/admin/deleted-tenants/{made['id']}", params=name)
