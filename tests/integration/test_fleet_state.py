"""The state of every tenant: failing by its latest attempt, wherever its database was seen."""

import asyncio
from uuid import UUID

import pytest
from msgspec.structs import replace

from tenantry.catalog import run_results, runs, tenant_list
from tenantry.catalog.activity import activity_of
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.catalog.tenant_counts import Filters
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, BadRunOptions, RunOptions
from tenantry.fleet.status import SchemaStatus, schema_status, tenant_map
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tests.integration.gates import Gate, mend, spoil
from tests.integration.gates import tenants as created


async def run(services: Services, options: RunOptions = EVERY_ACTIVE_TENANT) -> MigrationRun:
    ctx = system_context("ada")
    run_id = await services.fleet.plan(ctx, triggered_by="ada", options=options)
    return await services.fleet.wait(run_id)


async def status(services: Services) -> SchemaStatus:
    found = await schema_status(services.catalog, services.streams())
    assert found.total == found.up_to_date + found.behind + found.unknown
    return replace(found, revisions=[])


async def failing(services: Services) -> list[UUID]:
    page = await tenant_list.page(
        services.catalog, Window(1, 100), filters=Filters(is_failing=True)
    )
    return sorted(one.id for one in page.items)


def ids(*chosen: Tenant) -> list[UUID]:
    return sorted(one.id for one in chosen)


@pytest.mark.slow
class TestFailing:
    async def test_is_by_the_latest_attempt_of_each_tenant(self, gated: Settings, gate: Gate):
        """A newer run without a tenant, and one that does not attempt it, change nothing."""
        async with open_services(gated) as services:
            made = await created(services, 4)
            gate.build()
            gate.open()
            spoil(services, *made[:2])

            first = await run(services)
            assert await failing(services) == ids(*made[:2])
            await run(services, RunOptions(tenant_ids=[made[2].id]))
            left_out = RunOptions(tenant_ids=ids(*made[:3]), waves=[1])
            mend(services, made[0])
            second = await run(services, left_out)

            assert second.not_attempted_count == 2
            assert await failing(services) == ids(made[1])
            found = await status(services)
            assert (found.total, found.up_to_date, found.failing) == (4, 3, 1)
            causes = await run_results.failure_causes(services.catalog, first.id)
            assert [(one.count, one.left) for one in causes] == [(2, 1)]

    async def test_is_on_the_map(self, gated: Settings, gate: Gate):
        """With the cause; in the order of creation, from any tenant on."""
        async with open_services(gated) as services:
            made = await created(services, 3)
            gate.build()
            gate.open()
            spoil(services, made[1])
            first = await run(services)

            streams = services.streams()
            found = await tenant_map(services.catalog, streams, after=None)
            later = await tenant_map(services.catalog, streams, after=made[0].id)

            assert [one.tenant.id for one in found] == [one.id for one in made]
            assert [one.place.value for one in found] == ["head", "behind", "head"]
            assert [one.tenant.failing_run_id for one in found] == [None, first.id, None]
            assert "already exists" in (found[1].tenant.cause or "")
            assert [one.tenant.id for one in later] == [one.id for one in made[1:]]

    async def test_does_not_count_suspended_tenants(self, services: Services):
        made = await created(services, 3)
        await services.lifecycle.update(
            system_context("ada"), made[0], name=made[0].name, is_active=False
        )

        found = await status(services)

        assert (found.total, found.suspended, found.failing) == (2, 1, 0)


class TestRetry:
    @pytest.mark.slow
    async def test_is_for_one_cause(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await created(services, 4)
            gate.build()
            gate.open()
            spoil(services, made[1], made[3])
            first = await run(services, RunOptions(waves=[3]))
            causes = await run_results.failure_causes(services.catalog, first.id)
            assert [one.count for one in causes] == [1, 1]
            exists = next(one.cause for one in causes if "already exists" in one.cause)

            again = await run(services, RunOptions(retry_of=first.id, cause=exists))

            assert (again.total_count, again.retry_of) == (1, first.id)
            assert await failing(services) == ids(made[1])

    async def test_of_a_cause_needs_a_run(self, services: Services):
        with pytest.raises(BadRunOptions, match="`cause` needs `retryOf`"):
            await run(services, RunOptions(cause="anything"))


@pytest.mark.slow
class TestState:
    async def test_tells_a_cancelled_run_from_a_failed_one(self, gated: Settings, gate: Gate):
        """Before its end it is cancelling, and its tenants in work are known."""
        async with open_services(gated) as services:
            await created(services, 8)
            gate.build()
            ctx = system_context("ada")
            run_id = await services.fleet.plan(ctx, triggered_by="ada")
            while not services.worker.report().in_work:  # noqa: ASYNC110 - set by other tasks
                await asyncio.sleep(0.02)
            await services.heartbeat.beat(services.worker.report())
            running = await runs.get(services.catalog, run_id)
            activity = await activity_of(services.catalog, running)

            await services.fleet.cancel(ctx, run_id)
            cancelling = await runs.get(services.catalog, run_id)
            gate.open()
            ended = await services.fleet.wait(run_id)

            states = [one.state for one in (running, cancelling, ended)]
            assert states == [RunState.RUNNING, RunState.CANCELLING, RunState.CANCELLED]
            assert 0 < len(activity.in_work) == ended.success_count
            assert ended.not_attempted_count == ended.failed_count == 8 - ended.success_count
            assert (await activity_of(services.catalog, ended)).in_work == []


class TestSearch:
    async def test_finds_by_id_database_and_server(self, services: Services):
        made = await created(services, 3)
        wanted = made[1]

        async def found(search: str | None = None, server: str | None = None) -> list[UUID]:
            page = await tenant_list.page(
                services.catalog,
                Window(1, 100),
                search=search,
                filters=Filters(server_name=server),
            )
            assert page.total_count == len(page.items)
            return sorted(one.id for one in page.items)

        assert await found(search=str(wanted.id)) == [wanted.id]
        assert await found(search=wanted.database_name) == [wanted.id]
        assert await found(server=wanted.server_name) == ids(*made)
        assert await found(server="elsewhere") == []
