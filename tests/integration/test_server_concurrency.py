"""Each tenant server has a concurrency of its own, so a slow one delays no other."""

import asyncio
import time
from pathlib import Path

import pytest

from tenantry.catalog import runs, workers
from tenantry.fleet.claims import UNKNOWN_SERVER_SECONDS
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.server_settings import TenantServer
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.integration.test_placement import create

pytestmark = pytest.mark.slow

TENANTS = 6


class TestSlowServer:
    async def test_takes_no_place_of_a_tenant_of_another_server(
        self, settings: Settings, folder: AlembicFolder, tmp_path: Path
    ):
        """Its tenants are older, so they are the first ones in the run."""
        servers = {
            name: TenantServer.model_validate({"url": f"sqlite:///{tmp_path / name}", **more})
            for name, more in {"slow": {"concurrency": 1}, "quick": {}}.items()
        }
        more = {"tenant_migrations": folder.begin(), "tenant_servers": servers}
        opened = tmp_path / "gate"
        async with open_services(settings.model_copy(update=more)) as services:
            for server in servers:
                for number in range(TENANTS):
                    await create(services, f"{server}{number}", server)
            folder.add(
                "u1_create_note",
                f"""
                while "/slow/" in str(op.get_bind().engine.url) and not pathlib.Path(
                    {str(opened)!r}
                ).exists():
                    time.sleep(0.01)
                op.create_table("note", sa.Column("id", sa.Integer))
                """,
                head="import pathlib, time\nonline = True",
            )
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            while (await runs.get(services.catalog, run_id)).success_count < TENANTS:  # noqa: ASYNC110 - set by workers
                await asyncio.sleep(0.02)
            ended = await runs.ended(services.catalog, run_id)
            in_work = services.worker.report().in_work
            opened.touch()
            run = await services.fleet.wait(run_id)

        assert {one.server_name for one in ended} == {"quick"}
        assert [one.server_name for one in in_work] == ["slow"]
        assert run.success_count == 2 * TENANTS


class TestUnknownServer:
    async def test_fails_its_tenants_and_no_others(self, settings: Settings, tmp_path: Path):
        servers = {"gone": TenantServer.model_validate({"url": f"sqlite:///{tmp_path / 'gone'}"})}
        before = settings.model_copy(update={"tenant_servers": servers})
        async with open_services(before) as services:
            await create(services, "one", "gone")
            await create(services, "two", "default")
        async with open_services(settings) as services:
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            run = await services.fleet.wait(run_id)
            states = {
                one.server_name: one.state for one in await runs.ended(services.catalog, run.id)
            }

        assert states == {"gone": "Failed", "default": "Success"}

    async def test_leaves_its_tenants_to_a_process_that_has_the_server(
        self, settings: Settings, tmp_path: Path
    ):
        """As after a server was added to the settings of one process, and not yet of the other."""
        servers = {"new": TenantServer.model_validate({"url": f"sqlite:///{tmp_path / 'new'}"})}
        after = settings.model_copy(update={"tenant_servers": servers})
        async with open_services(after, works=False) as services:
            for number in range(TENANTS):
                await create(services, f"tenant{number}", "new")
        async with open_services(settings) as without:
            run_id = await without.fleet.plan(system_context("ada"), triggered_by="ada")
            async with open_services(after) as services:
                run = await services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (TENANTS, 0)

    async def test_fails_no_tenant_while_a_process_that_has_the_server_waits_for_it(
        self, settings: Settings, tmp_path: Path
    ):
        servers = {"new": TenantServer.model_validate({"url": f"sqlite:///{tmp_path / 'new'}"})}
        after = settings.model_copy(update={"tenant_servers": servers})
        async with open_services(after, works=False) as services:
            await create(services, "one", "new")
        async with open_services(settings) as without:
            run_id = await without.fleet.plan(system_context("ada"), triggered_by="ada")
            waits = workers.Report(runs=frozenset([run_id]), away={"new": 1.0})
            other = new_id()
            until = time.monotonic() + UNKNOWN_SERVER_SECONDS + 2
            while time.monotonic() < until:
                await workers.beat(without.catalog, other, waits)
                await asyncio.sleep(0.5)
            during = await runs.get(without.catalog, run_id)
            await workers.remove(without.catalog, other)
            run = await without.fleet.wait(run_id)

        assert (during.failed_count, run.failed_count) == (0, 1)
