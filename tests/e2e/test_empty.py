"""A service without tenants leads to the first one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.programs import free_port, running
from tests.e2e.checks import violations
from tests.e2e.conftest import Take, Watched
from tests.e2e.stage import create_admin
from tests.e2e.steps import go, sign_in

pytestmark = pytest.mark.timeout(300)


async def make_admin(settings: Settings) -> None:
    async with open_services(settings) as services:
        await create_admin(services)


class TestEmptyFleet:
    def test_leads_to_the_first_tenant(self, tmp_path: Path, context: BrowserContext, take: Take):
        settings = Settings(data_dir=tmp_path / "data")
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(make_admin(settings))).result()
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        given = {"TENANTRY_DATA_DIR": str(settings.data_dir), "TENANTRY_PORT": str(port)}
        with running(tmp_path, "serve", **given) as program:
            program.wait_for(url)
            watched = Watched(context.new_page(), url)
            page = watched.page
            sign_in(page, url)
            take(page, "empty-fleet")
            assert violations(page) == []
            for fragment, heading in (("#/runs", "Runs"), ("#/tenants", "Tenants")):
                go(page, fragment, heading)
                assert violations(page) == []
            go(page, "#/fleet", "Fleet")
            page.get_by_role("link", name="Create a tenant").click()
            expect(page.get_by_role("heading", name="New tenant")).to_be_visible()
            watched.check()
