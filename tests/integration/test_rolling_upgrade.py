"""Two releases share the runs while one replaces the other, and no tenant is lost."""

import asyncio
import itertools
import signal
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from tenantry.catalog import runs, workers
from tenantry.catalog.pace import Pace
from tenantry.catalog.runs import MigrationRun
from tenantry.fleet import active_runs
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit.revisions import AlembicFolder
from tests.integration.gates import Gate, tenants
from tests.integration.programs import running

pytestmark = pytest.mark.slow

TENANTS = 12
PATIENT_SECONDS = 5.0
SLOW = (
    "op.execute('SELECT 1')\ntime.sleep(0.1)\nop.create_table('{0}', sa.Column('id', sa.Integer))"
)
LIVE = "import time\nonline = True"


def impatient(
    settings: Settings, *, works: bool = True, seconds: float = 1.0
) -> AbstractAsyncContextManager[Services]:
    """Open a process that ends a run with revisions that no process knows after *seconds*.

    Where a run must not be ended, they are more than a busy machine delays a heartbeat.
    """
    pace = Pace(unknown_seconds=0.1, orphaned_seconds=seconds)
    return open_services(settings, works=works, pace=pace)


@pytest.fixture(name="old")
def _old(settings: Settings, tmp_path: Path) -> Settings:
    """The release that is replaced: it has one revision."""
    folder = AlembicFolder(tmp_path / "old")
    folder.add("u1_create_note", SLOW.format("note"), head=LIVE)
    more = {"tenant_migrations": folder.path, "migrate_concurrency": 2}
    return settings.model_copy(update=more)


@pytest.fixture(name="new")
def _new(old: Settings, tmp_path: Path) -> Settings:
    """The next release: it has one more."""
    folder = AlembicFolder(tmp_path / "new")
    folder.add("u1_create_note", SLOW.format("note"), head=LIVE)
    folder.add("u2_create_tag", SLOW.format("tag"), head=LIVE)
    return old.model_copy(update={"tenant_migrations": folder.path})


async def planned(services: Services, settings: Settings) -> MigrationRun:
    """Return a run that its planner does not work on."""
    async with impatient(settings, works=False) as planner:
        run_id = await planner.fleet.plan(system_context("ada"), triggered_by="ada")
    return await runs.get(services.catalog, run_id)


class TestRun:
    async def test_of_the_next_release_is_not_ended_by_the_one_before(
        self, settings: Settings, gate: Gate, gated: Settings
    ):
        """However long its tenants take: a process that knows its revisions has a heartbeat."""
        async with (
            impatient(settings, seconds=PATIENT_SECONDS) as old,
            impatient(gated, seconds=PATIENT_SECONDS) as new,
        ):
            await tenants(old, 4)
            gate.build()
            run_id = await new.fleet.plan(system_context("ada"), triggered_by="ada")
            await asyncio.sleep(1.5 * PATIENT_SECONDS)
            before = await runs.get(old.catalog, run_id)
            gate.open()
            run = await new.fleet.wait(run_id)

        assert before.finished_at is None
        assert (run.success_count, run.failed_count) == (4, 0)

    async def test_is_ended_when_no_process_that_knows_it_has_had_a_heartbeat(
        self, settings: Settings, gate: Gate, gated: Settings
    ):
        async with impatient(settings) as old:
            await tenants(old, 4)
            gate.build()
            run = await planned(old, gated)
            run = await old.fleet.wait(run.id)
            failed = await runs.ended(old.catalog, run.id)

        assert (run.success_count, run.failed_count) == (0, 4)
        assert {one.error for one in failed} == {active_runs.REVISIONS_UNKNOWN}

    async def test_that_was_cancelled_gives_that_as_the_reason_without_a_process_that_knows_it(
        self, settings: Settings, gate: Gate, gated: Settings
    ):
        async with impatient(settings, seconds=PATIENT_SECONDS) as old:
            await tenants(old, 2)
            gate.build()
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run = await planned(old, gated)
                await gate.reached(1)
                process.signal(signal.SIGKILL)
            await old.fleet.cancel(system_context("ada"), run.id)
            run = await old.fleet.wait(run.id)
            failed = await runs.ended(old.catalog, run.id)

        assert (run.success_count, run.failed_count) == (0, 2)
        assert {one.error for one in failed} == {runs.CANCELLED}

    async def test_in_progress_survives_that_all_its_processes_are_replaced(
        self, settings: Settings, old: Settings, new: Settings
    ):
        """One by one, also the one that planned it; each revision is applied once."""
        async with impatient(settings, works=False) as watching, AsyncExitStack() as stack:
            await tenants(watching, TENANTS)
            olds = [AsyncExitStack(), AsyncExitStack()]
            first, _ = [await one.enter_async_context(impatient(old)) for one in olds]
            run_id = await first.fleet.plan(system_context("ada"), triggered_by="ada")
            for one in olds:
                await asyncio.sleep(0.2)
                await one.aclose()
                await stack.enter_async_context(impatient(new))
            async with asyncio.timeout(100):
                run = await watching.fleet.wait(run_id)
            last = await stack.enter_async_context(impatient(new))
            again = await last.fleet.wait(
                await last.fleet.plan(system_context("ada"), triggered_by="ada")
            )
            applied = [
                name
                for one in itertools.chain(
                    await runs.ended(watching.catalog, run_id),
                    await runs.ended(watching.catalog, again.id),
                )
                for name in (one.applied or "").split(",")
                if name
            ]

        assert (run.success_count, run.failed_count) == (TENANTS, 0)
        assert (again.success_count, again.failed_count) == (TENANTS, 0)
        assert sorted(applied) == ["u1_create_note"] * TENANTS + ["u2_create_tag"] * TENANTS

    async def test_of_the_next_release_waits_for_its_processes(
        self, settings: Settings, old: Settings, new: Settings
    ):
        """Planned by the first of them, while the others are of the release before."""
        async with (
            impatient(settings, works=False, seconds=PATIENT_SECONDS) as watching,
            AsyncExitStack() as stack,
        ):
            await tenants(watching, TENANTS)
            olds = [AsyncExitStack(), AsyncExitStack()]
            for one in olds:
                await one.enter_async_context(impatient(old, seconds=PATIENT_SECONDS))
            first = await stack.enter_async_context(impatient(new, seconds=PATIENT_SECONDS))
            run_id = await first.fleet.plan(system_context("ada"), triggered_by="ada")
            for one in olds:
                await asyncio.sleep(0.75 * PATIENT_SECONDS)
                await one.aclose()
                await stack.enter_async_context(impatient(new, seconds=PATIENT_SECONDS))
            async with asyncio.timeout(100):
                run = await first.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (TENANTS, 0)


class TestReport:
    async def test_counts_by_the_clock_of_the_database(self, services: Services):
        """Whatever the clocks of the processes say."""
        run_id, process = new_id(), new_id()
        await workers.beat(services.catalog, process, workers.Report(frozenset({run_id})))

        found = {one.id: one for one in await workers.published(services.catalog)}

        assert found[process].knows(run_id)
        assert not found[services.heartbeat.worker_id].knows(run_id)
