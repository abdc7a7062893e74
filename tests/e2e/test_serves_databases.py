"""The console over databases that are not Tenantry's: ``tenantry fleet serve``."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from testkit.programs import free_port, running
from tests.e2e.checks import violations
from tests.e2e.conftest import Take, Watched
from tests.e2e.steps import go
from tests.integration.projects import make_project

pytestmark = pytest.mark.timeout(300)


class TestDatabases:
    def test_are_planned_and_migrated_and_nothing_of_tenants_is_shown(
        self, tmp_path: Path, context: BrowserContext, take: Take
    ):
        folder = make_project(tmp_path / "project").folder
        for name in ("acme", "globex"):
            (folder / f"{name}.db").touch()
        arguments = ("fleet", "serve", "--glob", "*.db", "--port", str(free_port()), "--json")
        with running(folder, *arguments) as program:
            program.wait_for(r"^}")
            started = json.loads(program.stdout)
            watched = Watched(context.new_page(), started["url"].removesuffix("/console"))
            page = watched.page
            page.goto(started["url"])
            page.get_by_label("E-mail address").fill(started["email"])
            page.get_by_label("Password").fill(started["password"])
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Fleet", level=1).wait_for()
            navigation = page.get_by_role("navigation", name="Main")
            expect(navigation).to_contain_text("Databases")
            expect(navigation).not_to_contain_text(re.compile("Tenants|Backups"))
            expect(page.get_by_role("region", name="Now")).to_contain_text("2 databases")
            expect(page.get_by_text("Oldest backup")).to_have_count(0)
            take(page, "databases")
            assert violations(page) == []

            go(page, "#/runs/plan", "Plan a run")
            page.get_by_role("button", name="Show the plan").click()
            page.get_by_role("button", name="Migrate 2 databases").click()
            expect(page.get_by_text("2 succeeded").first).to_be_visible(timeout=60_000)

            go(page, "#/tenants", "Databases")
            expect(page.get_by_role("link", name="New tenant")).to_have_count(0)
            page.get_by_role("link", name="acme").click()
            page.get_by_role("heading", name="acme", level=1).wait_for()
            for absent in ("Users", "API keys", "McpTokens", "Modules", "Posts"):
                expect(page.get_by_role("heading", name=absent, exact=True)).to_have_count(0)
            assert violations(page) == []
            for fragment, heading in (("#/health", "Health"), ("#/backups", "Page not found")):
                go(page, fragment, heading)
            watched.check()
