"""A tenant is made and managed, whatever text is in its names."""

import httpx
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.checks import violations
from tests.e2e.conftest import Fleet, Watched
from tests.e2e.stage import PASSWORD
from tests.e2e.steps import choose, dialog_button, go, secret_shown_once, sign_in

HOSTILE = "<img src=x onerror=alert(1)>"


class TestTenant:
    def test_is_made_and_managed(self, context: BrowserContext, fleet: Fleet):
        """From its making to its end, with whatever text in its names."""
        watched = Watched(context.new_page(), fleet.url)
        page = watched.page
        sign_in(page, fleet.url)
        key = self.makes(page)
        self.manages_users(page)
        assert self.rotates_key(page, key) != key
        page.get_by_label("MCP: McpTokens").uncheck()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#announcements")).to_have_text("The modules were saved.")
        assert violations(page) == []
        self.deletes(page)
        watched.check(may_be_refused=True)

    def test_is_not_changed_over_the_change_of_another(
        self, context: BrowserContext, fleet: Fleet, api: httpx.Client
    ):
        """The console changes what it has read; who reads it again can change it."""
        owner = {"fullName": "Ada", "email": "ada@example.com", "password": PASSWORD}
        made = api.post("/api/admin/tenants", json={"name": "Twice Ltd", "owner": owner}).json()
        path = f"/api/admin/tenants/{made['data']['id']}"
        watched = Watched(context.new_page(), fleet.url)
        page, dialog = watched.page, watched.page.get_by_role("dialog")
        sign_in(page, fleet.url)
        go(page, f"#/tenants/{made['data']['id']}", "Twice Ltd")
        api.patch(path, json={"name": "First Ltd"}).raise_for_status()

        choose(page, "Twice Ltd", "Rename…")
        page.get_by_label("Name", exact=True).fill("Second Ltd")
        dialog.get_by_role("button", name="Rename").click()
        expect(dialog.get_by_role("alert")).to_contain_text("has changed since you read it")
        page.reload()
        choose(page, "First Ltd", "Rename…")
        page.get_by_label("Name", exact=True).fill("Second Ltd")
        dialog_button(page, "Rename")
        page.get_by_role("heading", name="Second Ltd", level=1).wait_for()

        watched.check(may_be_refused=True)
        api.patch(path, json={"isActive": False}).raise_for_status()
        api.delete(path, params={"name": "Second Ltd"}).raise_for_status()
        gone = path.replace("tenants", "deleted-tenants")
        api.delete(gone, params={"name": "Second Ltd"}).raise_for_status()

    def makes(self, page: Page) -> str:
        go(page, "#/tenants/new", "New tenant")
        page.get_by_label("Name", exact=True).fill(HOSTILE)
        page.get_by_label("Full name").fill(HOSTILE)
        page.get_by_label("E-mail address").fill("owner@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create tenant").click()
        page.get_by_role("dialog").wait_for()
        assert violations(page) == []
        key = secret_shown_once(page, "API key")
        expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
        assert page.locator("main img").count() == 0
        return key

    def manages_users(self, page: Page) -> None:
        page.get_by_role("button", name="Add a user").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Full name").fill("Grace Hopper")
        dialog.get_by_label("E-mail address").fill("grace@example.com")
        dialog.get_by_label("Password").fill("password")
        dialog.get_by_role("button", name="Add").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_label("Password").fill(PASSWORD)
        dialog_button(page, "Add")
        choose(page, "grace@example.com", "Make a reset link")
        page.get_by_label("Link", exact=True).wait_for()
        assert "/link#tnr_" in secret_shown_once(page, "Link")
        page.get_by_role("button", name="Invite").click()
        dialog.get_by_label("E-mail address").fill("invited@example.com")
        expect(dialog.get_by_label("Role")).to_have_value("editor")
        dialog.get_by_role("button", name="Make a link").click()
        page.get_by_label("Link", exact=True).wait_for()
        assert "/link#tni_" in secret_shown_once(page, "Link")
        row = page.get_by_role("row").filter(has_text="grace@example.com")
        expect(row).to_contain_text("editor")
        choose(page, "grace@example.com", "Edit…")
        dialog.get_by_label("Role").select_option("author")
        dialog_button(page, "Save")
        expect(row).to_contain_text("author")
        choose(page, "grace@example.com", "Deactivate…")
        dialog_button(page, "Deactivate")
        expect(page.locator("#announcements")).to_contain_text("was deactivated")
        choose(page, "grace@example.com", "Delete…")
        dialog_button(page, "Delete")
        expect(page.get_by_text("grace@example.com", exact=True)).to_have_count(0)

    def rotates_key(self, page: Page, key: str) -> str:
        choose(page, key[:8], "Rotate…")
        page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
        page.get_by_label("API key", exact=True).wait_for()
        fresh = secret_shown_once(page, "API key")
        page.get_by_role("button", name=f"Actions for {fresh[:8]}").wait_for()
        choose(page, key[:8], "Revoke…")
        dialog_button(page, "Revoke")
        expect(page.get_by_role("button", name=f"Actions for {key[:8]}")).to_have_count(0)
        return fresh

    def deletes(self, page: Page) -> None:
        choose(page, HOSTILE, "Suspend…")
        dialog_button(page, "Suspend")
        choose(page, HOSTILE, "Delete…")
        page.get_by_label("Type the name of the tenant").fill(HOSTILE)
        dialog_button(page, "Delete tenant")
        page.get_by_role("heading", name="Tenants", level=1).wait_for()
        expect(page.get_by_role("region", name="Deleted tenants")).to_contain_text(HOSTILE)
        choose(page, HOSTILE, "Undelete…")
        page.get_by_label("Name", exact=True).fill("Another Ltd")
        dialog_button(page, "Undelete")
        page.get_by_role("heading", name="Another Ltd", level=1).wait_for()
        choose(page, "Another Ltd", "Rename…")
        page.get_by_label("Name", exact=True).fill(HOSTILE)
        dialog_button(page, "Rename")
        page.get_by_role("heading", name=HOSTILE, level=1).wait_for()
        expect(page.locator(".head .badge")).to_have_text("suspended")
        choose(page, HOSTILE, "Delete…")
        page.get_by_label("Type the name of the tenant").fill(HOSTILE)
        dialog_button(page, "Delete tenant")
        page.get_by_role("heading", name="Tenants", level=1).wait_for()
        choose(page, HOSTILE, "Remove now…")
        page.get_by_label("Type the name of the tenant").fill(HOSTILE)
        dialog_button(page, "Remove")
        expect(page.get_by_role("region", name="Deleted tenants")).to_have_count(0)
        go(page, "#/audit", "Audit log")
        expect(page.get_by_role("row").nth(1)).to_contain_text("tenant.purge")
