"""Failed writes to the catalog, and lost responses, block neither a run nor a process."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tenantry.catalog import run_claims, run_tenants, runs
from tenantry.catalog.pace import Pace
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import active_runs, outcomes
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.ids import new_id
from tenantry.migration.run_scripts import RunScripts
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.gates import spoil, tenants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

SECONDS_MAX = 20
IMPATIENT = Pace(retry_seconds=0.01, last_outcomes_seconds=0.5)


async def plan(services: Services, options: RunOptions | None = None) -> UUID:
    options = options or RunOptions()
    return await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)


class TestClaim:
    async def test_with_a_lost_response_is_made_again(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ):
        """The catalog has it, the connection was lost: this process lives, and holds the items."""
        for name in ("acme", "globex"):
            await provision(services, name)
        claim, lost = run_claims.claim, []

        async def claim_and_lose(*args: Any, **options: Any) -> Any:
            found = await claim(*args, **options)
            if found and not lost:
                lost.append(found)
                raise DatabaseUnavailable
            return found

        monkeypatch.setattr(run_claims, "claim", claim_and_lose)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert lost
        assert (run.success_count, run.failed_count) == (2, 0)

    async def test_that_raises_anything_ends_nothing(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ):
        await provision(services, "acme")
        unfinished, raised = runs.unfinished, []

        async def raise_once(*args: Any) -> Any:
            if not raised:
                raised.append(True)
                raise RuntimeError
            return await unfinished(*args)

        monkeypatch.setattr(runs, "unfinished", raise_once)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert (raised, run.success_count) == ([True], 1)


class TestOutcome:
    async def test_that_cannot_be_written_does_not_block_others(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ):
        """Nor does it keep this process from stopping, after a bounded time of retries."""
        record = run_tenants.record

        async def refuse_one(session: Any, some: Any, worker_id: UUID, **options: Any) -> Any:
            if "globex" in [one.item.tenant_name for one in some]:
                raise ValueError
            return await record(session, some, worker_id, **options)

        monkeypatch.setattr(run_tenants, "record", refuse_one)
        async with open_services(settings, pace=IMPATIENT) as services:
            for name in ("acme", "globex", "initech"):
                await provision(services, name)
            run_id = await plan(services)
            async with asyncio.timeout(SECONDS_MAX):
                while len(found := await runs.ended(services.catalog, run_id)) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                await asyncio.sleep(10 * IMPATIENT.retry_seconds)

                await services.worker.stop()

        assert [item.tenant_name for item in found] == ["acme", "initech"]

    async def test_that_is_written_in_other_words_is_as_true(
        self, settings: Settings, folder: AlembicFolder, monkeypatch: pytest.MonkeyPatch
    ):
        """A tenant at the head is a success, with what was applied there; a failure is one."""
        record = run_tenants.record

        async def refuse_what_is_odd(
            session: Any, some: Any, worker_id: UUID, **options: Any
        ) -> Any:
            for one in some:
                if one.schema_revision or not f"{one.item.applied}{one.item.error}".isascii():
                    raise ValueError
            return await record(session, some, worker_id, **options)

        monkeypatch.setattr(run_tenants, "record", refuse_what_is_odd)
        with_user = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(with_user, pace=IMPATIENT) as services:
            made = await tenants(services, 2)
            folder.add("u1_créer", "op.create_table('note', sa.Column('id', sa.Integer))")
            spoil(services, made[1])

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
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ):
        """What has not started waits for the catalog to count them, for a bounded time."""
        one_by_one = settings.model_copy(update={"migrate_concurrency": 1})
        async with open_services(one_by_one, pace=Pace(last_outcomes_seconds=0.5)) as services:
            for name in ("acme", "globex"):
                tenant = (await provision(services, name)).tenant
                await services.databases.forget(tenant.id)
                await services.databases.server("default").drop(tenant.database_name)

            async def refuse(*_arguments: object, **_options: object) -> Any:
                raise DatabaseUnavailable

            monkeypatch.setattr(run_tenants, "record", refuse)
            await plan(services, RunOptions(max_failures=0))
            await asyncio.sleep(1)

            async with asyncio.timeout(SECONDS_MAX):
                await services.worker.stop()


class TestWork:
    async def test_that_fails_is_restarted_with_all_that_was_in_flight(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ):
        """Whatever it was: no item of the run stays with a process that has forgotten it."""
        for name in ("acme", "globex", "initech"):
            await provision(services, name)
        is_clear, broken = ActiveRun.is_clear, []

        async def break_once(run: ActiveRun, catalog: Any) -> bool:
            if not broken:
                broken.append(True)
                raise RuntimeError
            return await is_clear(run, catalog)

        monkeypatch.setattr(ActiveRun, "is_clear", break_once)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services, RunOptions(max_failures=0)))

        assert (broken, run.success_count) == ([True], 3)
        assert services.worker.is_idle

    async def test_that_fails_reports_what_it_had_applied(
        self, settings: Settings, folder: AlembicFolder, monkeypatch: pytest.MonkeyPatch
    ):
        succeeded, broken = outcomes.succeeded, []

        def break_once(*args: Any, **options: Any) -> Any:
            if not broken:
                broken.append(True)
                raise RuntimeError
            return succeeded(*args, **options)

        with_user = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(with_user) as services:
            await tenants(services, 2)
            folder.add("u1_create_note", "op.create_table('note', sa.Column('id', sa.Integer))")
            monkeypatch.setattr(outcomes, "succeeded", break_once)
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
