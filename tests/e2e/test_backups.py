"""Backups in the console: made, verified, restored in each way, and copied."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import FAR, Fleet, Watched
from tests.e2e.stage import PASSWORD
from tests.e2e.steps import choose, dialog_button, go, sign_in

pytestmark = pytest.mark.timeout(300)

JOB_MS_MAX = 60_000
# Longer than the interval in which jobs are read.
POLLED_MS = 3_000
NAME = "Copied Ltd"


@dataclass(frozen=True)
class Made:
    """A tenant that a test made."""

    id: str
    name: str


@pytest.fixture(name="tenant")
def _tenant(api: httpx.Client) -> Iterator[Made]:
    """A tenant for one test, removed with its copies: other tests count those of the fleet."""
    owner = {"email": "o@example.com", "fullName": "O", "password": PASSWORD}
    answer = api.post("/api/admin/tenants", json={"name": NAME, "owner": owner})
    made = answer.raise_for_status().json()["data"]
    yield Made(made["id"], made["name"])
    copies = api.get("/api/admin/tenants", params={"search": NAME}).json()["data"]["items"]
    for one in copies:
        path, name = f"tenants/{one['id']}", {"name": one["name"]}
        api.patch(f"/api/admin/{path}", json={"isActive": False}).raise_for_status()
        api.delete(f"/api/admin/{path}", params=name).raise_for_status()
        api.delete(f"/api/admin/deleted-{path}", params=name).raise_for_status()


def jobs(page: Page, state: str, count: int = 1) -> None:
    """Wait until *count* jobs that are shown have ended in *state*, and all others have ended."""
    region = page.get_by_role("region", name="Jobs")
    done = region.locator(".badge", has_text=state)
    expect(done).to_have_count(count, timeout=JOB_MS_MAX)


def archive_of(page: Page, tenant: Made) -> str:
    row = page.get_by_role("region", name="Archives").get_by_role("row", name=tenant.name)
    return row.locator("td.code.wide").inner_text()


def server_of(api: httpx.Client, tenant: Made) -> str:
    found = api.get(f"/api/admin/tenants/{tenant.id}").raise_for_status().json()["data"]
    return str(found["serverName"])


class TestBackups:
    def test_are_made_verified_and_restored(self, watched: Watched, fleet: Fleet, tenant: Made):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        choose(page, tenant.name, "Back up")
        jobs(page, "done")
        choose(page, tenant.name, "Restore…")
        page.get_by_role("heading", name="Backups", level=1).wait_for()
        archive = archive_of(page, tenant)

        choose(page, archive, "Verify")
        jobs(page, "done", 2)
        self.restores_as_new(page, archive, tenant)
        self.restores_in_place(page, archive, tenant)
        watched.check(may_be_refused=True)
        watched.complaints.clear()

    def restores_as_new(self, page: Page, archive: str, tenant: Made) -> None:
        choose(page, archive, "Restore…")
        page.get_by_role("dialog").wait_for()
        assert violations(page) == []
        page.get_by_label("Name of the new tenant").fill(f"{tenant.name} yesterday")
        dialog_button(page, "Restore as new")
        jobs(page, "done", 3)
        page.get_by_role("link", name=f"{tenant.name} yesterday").click()
        page.get_by_role("heading", name=f"{tenant.name} yesterday", level=1).wait_for()
        expect(page.get_by_role("region", name="API keys")).to_contain_text("no API key")
        page.go_back()
        page.get_by_role("heading", name="Backups", level=1).wait_for()

    def restores_in_place(self, page: Page, archive: str, tenant: Made) -> None:
        choose(page, archive, "Restore…")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type the name of the tenant").fill("another")
        dialog.get_by_role("button", name="Restore in place").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_label("Type the name of the tenant").fill(tenant.name)
        dialog_button(page, "Restore in place")
        jobs(page, "done, old database kept")
        choose(page, f"the job of {tenant.name}", "Drop the old database…")
        dialog_button(page, "Drop")
        expect(page.get_by_text("done, old database kept")).to_have_count(0)

    def test_are_made_of_those_that_an_expression_selects(
        self, watched: Watched, fleet: Fleet, tenant: Made, api: httpx.Client
    ):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/backups", "Backups")
        self.backs_up(page, "name is")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("expected at 6")
        page.keyboard.press("Escape")
        self.backs_up(page, f"name ~ '{tenant.name}'")
        expect(page.locator("#announcements")).to_contain_text("1 backup queued.")
        for _ in range(JOB_MS_MAX // POLLED_MS):
            (job,) = api.get("/api/admin/jobs", params={"tenantId": tenant.id}).json()["data"][
                "items"
            ]
            if job["state"] == "done":
                break
            page.wait_for_timeout(POLLED_MS)
        assert job["state"] == "done"
        watched.check(may_be_refused=True)
        watched.complaints.clear()

    def backs_up(self, page: Page, where: str) -> None:
        page.get_by_role("button", name="Back up everything…").click()
        assert violations(page) == []
        page.get_by_label("Where").fill(where)
        page.get_by_role("dialog").get_by_role("button", name="Back up").click()

    def test_clone_a_tenant(self, watched: Watched, fleet: Fleet, tenant: Made):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        choose(page, tenant.name, "Clone…")
        assert violations(page) == []
        page.get_by_label("Name of the clone").fill(f"{tenant.name} staging")
        dialog_button(page, "Clone")
        go(page, "#/backups", "Backups")
        expect(page.get_by_role("link", name=f"{tenant.name} staging")).to_be_visible(
            timeout=JOB_MS_MAX
        )

    def test_move_a_tenant_and_every_tenant_of_a_server(
        self, watched: Watched, fleet: Fleet, tenant: Made, api: httpx.Client
    ):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        expect(page.locator("dl")).to_contain_text("default")
        choose(page, tenant.name, "Move…")
        assert violations(page) == []
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("rejected until the copy is complete")
        expect(dialog).to_contain_text(
            "A move takes some seconds, and up to 40 s more for each GB."
        )
        dialog_button(page, "Move")
        jobs(page, "done")
        expect(page.locator("dl")).to_contain_text(FAR)
        assert server_of(api, tenant) == FAR

        go(page, "#/health", "Health")
        page.get_by_role("button", name="Move all tenants…").click()
        assert violations(page) == []
        page.get_by_label("From", exact=True).select_option(FAR)
        page.get_by_label("To", exact=True).select_option("default")
        page.get_by_label("Where").fill(f"name = '{tenant.name}'")
        with page.expect_request("**/move-all") as sent:
            dialog_button(page, "Move all")
        assert sent.value.post_data_json["where"] == f"name = '{tenant.name}'"
        expect(page.get_by_text("1 move queued.")).to_be_visible()
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        jobs(page, "done", 2)
        assert server_of(api, tenant) == "default"

    def test_a_move_to_the_same_server_is_refused(
        self, watched: Watched, fleet: Fleet, tenant: Made
    ):
        del tenant
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/health", "Health")
        page.get_by_role("button", name="Move all tenants…").click()
        for label in ("From", "To"):
            page.get_by_label(label, exact=True).select_option(FAR)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Move all").click()
        expect(dialog.get_by_role("alert")).to_contain_text("on this tenant server already")
        watched.check(may_be_refused=True)
        watched.complaints.clear()

    def test_export_the_data_of_a_tenant(self, watched: Watched, fleet: Fleet, tenant: Made):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{tenant.id}", tenant.name)
        for row_format, suffix in (("JSON lines", ".jsonl"), ("CSV", ".csv")):
            choose(page, tenant.name, "Export…")
            assert violations(page) == []
            dialog = page.get_by_role("dialog")
            expect(dialog.get_by_role("textbox", name="The same as a command")).to_have_value(
                f"tenantry tenant export {tenant.id} FOLDER"
            )
            dialog.get_by_label("Format of the rows").select_option(row_format)
            with page.expect_download() as downloaded:
                dialog_button(page, "Download")

            assert downloaded.value.suggested_filename == f"export-{tenant.name}.zip"
            with ZipFile(downloaded.value.path()) as archive:
                assert archive.testzip() is None
                manifest = json.loads(archive.read("export.json"))
                assert {Path(one).suffix for one in archive.namelist()} == {suffix, ".json"}
            assert manifest["tenantName"] == tenant.name

    def test_keep_the_focus_while_jobs_are_read(self, watched: Watched, fleet: Fleet):
        page = watched.page
        sign_in(page, fleet.url)
        go(page, "#/backups", "Backups")
        page.get_by_label("Search", exact=True).last.focus()
        page.keyboard.type("no such tenant")
        page.wait_for_timeout(POLLED_MS)

        assert page.evaluate("document.activeElement.name") == "search"
        expect(page.get_by_text("There are no archives.")).to_be_visible()
        assert page.url.endswith("search=no+such+tenant")
