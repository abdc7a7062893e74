"""Failed writes to the catalog, and lost responses, block neither a run nor a process."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tenantry.catalog import holds, run_claims, run_tenants, runs
from tenantry.catalog.pace import Pace
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import active_runs, outcomes
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.migration.run_scripts import RunScripts
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.gates import spoil, tenants

pytestmark = pytest.mark.slow

SECONDS_MAX = 100
CLAIMED = "SELECT count(*) FROM tenant_migration WHERE worker_id IS NOT NULL"
IMPATIENT = Pace(retry_seconds=0.01, last_outcomes_seconds=0.5)


async def plan(services: Services, options: RunOptions | None = None) -> UUID:
    options = options or RunOptions()
    return await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)


class TestClaim:
    async def test_with_a_lost_response_is_made_again(self, services: Services, faults: Faults):
        """The catalog has it, the connection was lost: this process lives, and holds the items."""
        for name in ("acme", "globex"):
            await provision(services, name)
        lost: list[int] = []

        def lose(*_: Any, **__: Any) -> None:
            [(claimed,)] = raw_sql.rows(services.settings.catalog, CLAIMED)
            if claimed and not lost:
                lost.append(claimed)
                raise DatabaseUnavailable

        faults.after(run_claims, "claim", lose)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert lost
        assert (run.success_count, run.failed_count) == (2, 0)

    async def test_that_raises_anything_ends_nothing(self, services: Services, faults: Faults):
        await provision(services, "acme")
        raised = []

        def fail(*_: Any, **__: Any) -> None:
            raised.append(True)
            raise RuntimeError

        faults.before(holds, "workable", fail, once=True)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert (raised, run.success_count) == ([True], 1)


class TestOutcome:
    async def test_that_cannot_be_written_does_not_block_others(self, settings: Settings):
        """Nor does it keep this process from stopping, after a bounded time of retries."""
        async with open_services(settings, pace=IMPATIENT) as services:
            for name in ("acme", "globex", "initech"):
                await provision(services, name)
            of_globex = "NEW.tenant_name = 'globex' AND NEW.state = 'Success'"
            raw_sql.refuse_updates(settings.catalog, "tenant_migration", of_globex)
            run_id = await plan(services)
            async with asyncio.timeout(SECONDS_MAX):
                while len(found := await runs.ended(services.catalog, run_id)) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                await asyncio.sleep(10 * IMPATIENT.retry_seconds)

                await services.worker.stop()

        assert [item.tenant_name for item in found] == ["acme", "initech"]

    async def test_that_is_written_in_other_words_is_as_true(
        self, settings: Settings, folder: AlembicFolder
    ):
        """A tenant at the head is a success, with what was applied there; a failure is one."""
        odd = "NEW.applied LIKE '%é%' OR NEW.error LIKE '%é%'"
        with_user = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(with_user, pace=IMPATIENT) as services:
            made = await tenants(services, 2)
            folder.add("u1_créer", "op.create_table('note', sa.Column('id', sa.Integer))")
            spoil(services, made[1])
            raw_sql.refuse_updates(settings.catalog, "tenant_migration", odd)
            raw_sql.refuse_updates(settings.catalog, "tenant", "NEW.schema_revision LIKE '%u1'")

            async with asyncio.timeout(SECONDS_MAX):
                run = await services.fleet.wait(await plan(services))
            found = await runs.ended(services.catalog, run.id)

        assert (run.success_count, run.failed_count) == (1, 1)
        assert [(one.state, one.applied, one.error) for one in found] == [
            ("Success", "u1_cr\\xe9er", None),
            ("Failed", "", outcomes.UNWRITABLE),
        ]


class TestStop:
    async def test_ends_while_failures_wait_that_may_be_one_too_many(
        self, settings: Settings, faults: Faults
    ):
        """What has not started waits for the catalog to count them, for a bounded time."""
        one_by_one = settings.model_copy(update={"migrate_concurrency": 1})
        async with open_services(one_by_one, pace=Pace(last_outcomes_seconds=0.5)) as services:
            for name in ("acme", "globex"):
                tenant = (await provision(services, name)).tenant
                await services.databases.forget(tenant.id)
                await services.databases.server("default").drop(tenant.database_name)

            def refuse(*_: Any, **__: Any) -> None:
                raise DatabaseUnavailable

            faults.before(run_tenants, "record", refuse)
            await plan(services, RunOptions(max_failures=0))
            await asyncio.sleep(1)

            async with asyncio.timeout(SECONDS_MAX):
                await services.worker.stop()


class TestWork:
    async def test_that_fails_is_restarted_with_all_that_was_in_flight(
        self, services: Services, faults: Faults
    ):
        """Whatever it was: no item of the run stays with a process that has forgotten it."""
        for name in ("acme", "globex", "initech"):
            await provision(services, name)
        broken = []

        def fail(*_: Any) -> None:
            broken.append(True)
            raise RuntimeError

        faults.before(ActiveRun, "is_clear", fail, once=True)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services, RunOptions(max_failures=0)))

        assert (broken, run.success_count) == ([True], 3)
        assert services.worker.is_idle

    async def test_that_fails_reports_what_it_had_applied(
        self, settings: Settings, folder: AlembicFolder, faults: Faults
    ):
        broken = []

        def fail(*_: Any, **__: Any) -> None:
            broken.append(True)
            raise RuntimeError

        with_user = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(with_user) as services:
            await tenants(services, 2)
            folder.add("u1_create_note", "op.create_table('note', sa.Column('id', sa.Integer))")
            faults.before(outcomes, "succeeded", fail, once=True)
            async with asyncio.timeout(SECONDS_MAX):
                run = await services.fleet.wait(run_id := await plan(services))

            found = await runs.ended(services.catalog, run_id)

        assert (broken, run.success_count) == ([True], 2)
        assert [item.applied for item in found] == ["u1_create_note"] * 2


class TestActiveRuns:
    def test_are_begun_once(self, services: Services):
        """A run that was just planned may have been found in the catalog already."""
        known = ActiveRuns(services.streams, InFlight())
        run_id = new_id()

        first = known.begin(run_id, RunScripts(services.streams()))
        again = known.begin(run_id, RunScripts(services.streams()))

        assert again is first
        assert active_runs.RUNS_REMEMBERED_MAX >= runs.UNFINISHED_MAX

    async def test_are_not_published_after_their_end(self, services: Services):
        known = ActiveRuns(services.streams, InFlight())
        run_id = await plan(services)
        known.begin(run_id, RunScripts(services.streams()))
        assert known.known == {run_id}

        await services.fleet.wait(run_id)
        known.update(await runs.get(services.catalog, run_id))

        assert known.known == frozenset()
