"""Unfinished runs share the workers: a small one does not wait for a large older one."""

import asyncio
import time

import pytest

from tenantry.catalog import runs
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.integration.gates import tenants

pytestmark = pytest.mark.slow

TENANTS = 40
SECONDS_EACH = 0.2
CONCURRENCY = 2
# Of the time that the older run takes, so that it holds on a busy machine too. Alone: 0.15.
URGENT_SHARE_MAX = 0.5


class TestRunOfOneTenant:
    async def test_does_not_wait_for_an_older_run(self, settings: Settings, folder: AlembicFolder):
        more = {"tenant_migrations": folder.begin(), "migrate_concurrency": CONCURRENCY}
        async with open_services(settings.model_copy(update=more)) as services:
            made = await tenants(services, TENANTS)
            body = (
                f"time.sleep({SECONDS_EACH})\nop.create_table('note', sa.Column('id', sa.Integer))"
            )
            folder.add("u1_create_note", body, head="import time\nonline = True")
            plan, by = services.fleet.plan, {"triggered_by": "ada"}
            others = RunOptions(tenant_ids=[one.id for one in made[:-1]])
            older_began = time.monotonic()
            older = await plan(system_context("ada"), options=others, **by)
            await asyncio.sleep(2 * SECONDS_EACH)

            began = time.monotonic()
            urgent = RunOptions(tenant_ids=[made[-1].id])
            ended = await services.fleet.wait(
                await plan(system_context("ada"), options=urgent, **by)
            )
            took = time.monotonic() - began
            during = await runs.get(services.catalog, older)
            last = await services.fleet.wait(older)
            older_took = time.monotonic() - older_began

        assert ended.success_count == 1
        assert during.finished_at is None
        assert took < URGENT_SHARE_MAX * older_took, f"{took:.2f} s of {older_took:.2f} s"
        assert last.success_count == TENANTS - 1
