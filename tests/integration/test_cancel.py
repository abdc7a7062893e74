"""Cancelling a run: tenants that have not started do not start, in any process."""

import asyncio
from datetime import datetime
from uuid import UUID

import pytest

from tenantry.catalog import audit, run_claims, run_tenants, runs, workers
from tenantry.catalog.pace import Pace
from tenantry.catalog.run_tenants import MigrationRunEnded
from tenantry.catalog.runs import MigrationRunNotFound, RunTenant
from tenantry.catalog.tenants import Tenant
from tenantry.fleet import active_runs
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.migration.run_scripts import RunScripts
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from tests.integration.gates import Gate, is_migrated, tenants, until_held, url_of
from tests.integration.programs import running

CANCELLED = "not attempted: run cancelled"
SILENCE_MS = 5_000


async def plan(services: Services, options: RunOptions | None = None) -> UUID:
    options = options or RunOptions()
    return await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)


async def cancel(services: Services, run_id: UUID) -> datetime:
    """Cancel a run; return when that was done."""
    await services.fleet.cancel(system_context("ada"), run_id)
    return utc_now()


async def check(
    services: Services, run_id: UUID, made: list[Tenant], *, done: int
) -> list[RunTenant]:
    """Check that *done* tenants were migrated, and the others left alone; return the items."""
    run = await services.fleet.wait(run_id)
    found = await runs.ended(services.catalog, run_id)
    assert (run.total_count, run.success_count, run.failed_count) == (
        len(made),
        done,
        len(made) - done,
    )
    assert run.finished_at == max(item.finished_at for item in found if item.finished_at)
    for item, tenant in zip(found, made, strict=True):
        assert (item.state == "Success") is is_migrated(services, tenant)
        if item.state == "Failed":
            assert (item.error, item.applied) == (CANCELLED, "")
    return found


class TestCancel:
    @pytest.mark.slow
    async def test_ends_what_is_in_work_and_starts_nothing(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 8)
            gate.build()
            run_id = await plan(services)
            await gate.reached(2)

            await cancel(services, run_id)
            gate.open()

            found = await check(services, run_id, made, done=2)
            assert {item.applied for item in found[:2]} == {"g1_gate"}

    @pytest.mark.slow
    async def test_ends_at_once_what_waits_for_its_wave(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 6)
            gate.build()
            run_id = await plan(services, RunOptions(waves=[1, "100%"]))
            await gate.reached(1)

            at = await cancel(services, run_id)

            run = await runs.get(services.catalog, run_id)
            assert (run.failed_count, run.finished_at) == (5, None), "one is in work"
            gate.open()
            found = await check(services, run_id, made, done=1)
            assert all(item.finished_at <= at for item in found[1:] if item.finished_at)

    @pytest.mark.slow
    async def test_reaches_the_process_that_works(self, gated: Settings, gate: Gate):
        """Cancelled here, worked on there: nothing starts a moment later."""
        async with open_services(gated, works=False) as services:
            made = await tenants(services, 8)
            gate.build()
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run_id = await plan(services)
                await until_held(gated, 8)
                await gate.reached(2)

                at = await cancel(services, run_id)
                await asyncio.sleep(active_runs.STATE_SECONDS_MAX + 0.1)
                gate.open()

                found = await check(services, run_id, made, done=2)
        assert all(item.started_at < at for item in found[:2] if item.started_at)

    @pytest.mark.slow
    async def test_needs_no_process_that_works(self, gated: Settings):
        async with open_services(gated, works=False) as services:
            made = await tenants(services, 3)
            run_id = await plan(services)

            await cancel(services, run_id)

            await check(services, run_id, made, done=0)

    @pytest.mark.slow
    async def test_ends_what_may_start_and_what_waits_a_few_at_a_time(self, gated: Settings):
        async with open_services(gated, works=False, pace=Pace(closed_max=2)) as services:
            made = await tenants(services, 6)
            run_id = await plan(services, RunOptions(waves=[3, "100%"]))

            await services.fleet.cancel(system_context("ada"), run_id, ends_all=True)

            await check(services, run_id, made, done=0)

    async def test_leaves_nothing_to_claim(self, gated: Settings):
        """Not even for a worker that found work before it, and claims after it."""
        async with open_services(gated, works=False) as services:
            await tenants(services, 2)
            run_id = await plan(services)
            async with services.catalog.begin() as session:
                assert await run_tenants.stop(session, run_id)

            assert (
                await run_claims.claim(
                    services.catalog, run_id, new_id(), server_name="default", limit=8
                )
                == []
            )

    @pytest.mark.slow
    async def test_is_audited_once_however_often_it_is_asked_for(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await tenants(services, 3)
            gate.build()
            run_id = await plan(services)
            await until_held(gated, 3)

            await cancel(services, run_id)
            await cancel(services, run_id)

            gate.open()
            await services.fleet.wait(run_id)
            log = (await audit.LOG.page(services.catalog, Window(1, 100))).items
            told = [one.target for one in log if one.action == "migration-run.cancel"]
            assert told == [str(run_id)]

    async def test_of_a_run_that_has_ended_is_refused(self, services: Services):
        await tenants(services, 1)
        run_id = await plan(services)
        await services.fleet.wait(run_id)
        empty = await plan(services, RunOptions(tenant_ids=[]))

        for ended in (run_id, empty):
            with pytest.raises(MigrationRunEnded):
                await cancel(services, ended)

        log = (await audit.LOG.page(services.catalog, Window(1, 100))).items
        assert "migration-run.cancel" not in {one.action for one in log}

    async def test_of_a_run_that_does_not_exist_is_refused(self, services: Services):
        with pytest.raises(MigrationRunNotFound):
            await cancel(services, new_id())


@pytest.mark.slow
class TestAfterADeath:
    """The worker that held the items has fallen silent, and another one ends the run."""

    async def test_says_what_the_tenants_log_says(self, gated: Settings, gate: Gate):
        """It had migrated one tenant and died before it could say so; the others it had not."""
        async with open_services(gated, works=False) as services:
            made = await tenants(services, 4)
            gate.build()
            gate.open()
            run_id = await plan(services)
            dead = await _claim_all(services, run_id)
            await services.migrator.migrate(
                url_of(services, made[1]),
                RunScripts(services.streams()),
                run_id=run_id,
            )
            await services.databases.forget(made[3].id)
            await services.databases.server("default").drop(made[3].database_name)
            await cancel(services, run_id)
            assert await runs.ended(services.catalog, run_id) == [], "the dead may live"

        _silence(gated, dead)
        async with open_services(gated) as services:
            run = await services.fleet.wait(run_id)
            found = await runs.ended(services.catalog, run_id)

            assert (run.success_count, run.failed_count) == (1, 3)
            assert [item.state for item in found] == ["Failed", "Success", "Failed", "Failed"]
            assert found[1].applied == "g1_gate"
            assert {item.error for item in found} == {None, CANCELLED}
            assert not is_migrated(services, made[0])

    async def test_says_what_the_logs_say_also_if_the_next_worker_was_stopped(
        self, gated: Settings, gate: Gate
    ):
        """It had claimed what the dead one had migrated, and released it before it was started."""
        one_by_one = gated.model_copy(update={"migrate_concurrency": 1})
        async with open_services(gated, works=False) as services:
            made = await tenants(services, 4)
            gate.build()
            gate.open()
            run_id = await plan(services)
            dead = await _claim_all(services, run_id)
            for tenant in made[1:]:
                await services.migrator.migrate(
                    url_of(services, tenant), RunScripts(services.streams()), run_id=run_id
                )
            _silence(gated, dead)
            gate.path.unlink()
            async with open_services(one_by_one) as second:
                await _until_claimed(gated, second, 4)
                stopping = asyncio.create_task(second.worker.stop())
                await asyncio.sleep(0.3)
                gate.open()
                await stopping

            await cancel(services, run_id)

            async with open_services(gated):
                run = await services.fleet.wait(run_id)
            found = await runs.ended(services.catalog, run_id)
            assert run.success_count >= 3
            for item, tenant in zip(found, made, strict=True):
                assert (item.state == "Success") is is_migrated(services, tenant)

    async def test_ends_the_run_though_its_revisions_are_unknown(
        self, gated: Settings, settings: Settings, gate: Gate
    ):
        async with open_services(gated, works=False) as services:
            await tenants(services, 2)
            gate.build()
            run_id = await plan(services)
            dead = await _claim_all(services, run_id)
            await cancel(services, run_id)
        _silence(gated, dead)

        async with open_services(settings, pace=Pace(orphaned_seconds=0)) as ignorant:
            run = await ignorant.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (0, 2)


@pytest.mark.slow
class TestStop:
    async def test_ends_without_a_catalog_and_leaves_the_rest_to_others(
        self, gated: Settings, gate: Gate
    ):
        """The tenants in work are finished; their own logs hold the outcomes."""
        async with open_services(gated, pace=Pace(last_outcomes_seconds=0.5)) as services:
            made = await tenants(services, 4)
            gate.build()
            run_id = await plan(services)
            await gate.reached(2)
            await asyncio.to_thread(
                raw_sql.run, gated.catalog, "ALTER TABLE tenant_migration RENAME TO elsewhere"
            )
            gate.open()

            async with asyncio.timeout(60):
                await services.worker.stop()

            assert [is_migrated(services, one) for one in made] == [True, True, False, False]
            await asyncio.to_thread(
                raw_sql.run, gated.catalog, "ALTER TABLE elsewhere RENAME TO tenant_migration"
            )

        async with open_services(gated) as services:
            run = await services.fleet.wait(run_id)
            found = await runs.ended(services.catalog, run_id)
        assert (run.success_count, run.failed_count) == (4, 0)
        assert {item.applied for item in found} == {"g1_gate"}


async def _claim_all(services: Services, run_id: UUID) -> UUID:
    dead = new_id()
    await workers.beat(services.catalog, dead)
    await run_claims.claim(services.catalog, run_id, dead, server_name="default", limit=100)
    return dead


async def _until_claimed(settings: Settings, services: Services, count: int) -> None:
    """Wait until a process has claimed, or ended, so many tenants."""
    worker_id = services.heartbeat.worker_id
    text = worker_id.hex if settings.catalog.startswith("sqlite") else str(worker_id)
    sql = f"SELECT count(*) FROM tenant_migration WHERE worker_id = '{text}'"
    async with asyncio.timeout(60):
        while raw_sql.rows(settings.catalog, sql) != [(count,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _silence(settings: Settings, worker_id: UUID) -> None:
    text = worker_id.hex if settings.catalog.startswith("sqlite") else str(worker_id)
    raw_sql.run(
        settings.catalog,
        f"UPDATE worker SET seen_at_ms = seen_at_ms - {SILENCE_MS + 1_000} WHERE id = '{text}'",
    )
