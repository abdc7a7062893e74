"""Planning a run: in batches, hidden until it is complete."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa

from tenantry.catalog import jobs, plans, run_tenants, runs, workers
from tenantry.catalog.pace import Pace
from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import Progress
from tenantry.db.statements import Count, Statement
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.ledger import new_job
from testkit import raw_sql
from testkit.faults import Faults
from tests.integration.gates import Gate, tenants

SMALL_BATCHES = Pace(added_max=3, opened_max=2, closed_max=2)


class _State(msgspec.Struct, frozen=True):
    state: str


_RUNS = Statement(sa.select(sa.func.count().label("count")).select_from(migration_run), Count)
_ITEMS = Statement(sa.select(sa.func.count().label("count")).select_from(tenant_migration), Count)
_STATES = Statement(
    sa.select(tenant_migration.c.state).where(tenant_migration.c.run_id == sa.bindparam("run")),
    _State,
)


async def rows(services: Services) -> tuple[int, int]:
    """Return how many runs and items are in the catalog, also hidden ones."""
    found = [await services.catalog.fetch_one(one) for one in (_RUNS, _ITEMS)]
    return tuple(one.count for one in found if one)  # type: ignore[return-value]


async def plan(services: Services, options: RunOptions) -> UUID:
    return await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)


async def states(services: Services, run_id: UUID) -> dict[str, int]:
    """Return how many items of a run are in each state."""
    found = await services.catalog.fetch_all(_STATES, run=run_id)
    return Counter(one.state for one in found)


class TestPlan:
    @pytest.mark.parametrize("count", [2, 3, 7])
    async def test_adds_every_tenant_once(self, settings: Settings, count: int):
        async with open_services(settings, pace=SMALL_BATCHES) as services:
            made = await tenants(services, count)

            run = await services.fleet.wait(await plan(services, RunOptions(waves=[1, "100%"])))
            ended = await runs.ended(services.catalog, run.id)

        assert [one.tenant_id for one in ended] == [one.id for one in made]
        assert (run.total_count, run.success_count, run.waves) == (count, count, [1, count])

    async def test_is_hidden_and_removed_if_it_is_interrupted(
        self, settings: Settings, faults: Faults
    ):
        def fail(*_: Any, **__: Any) -> None:
            raise KeyError("interrupted")

        async with open_services(settings, pace=SMALL_BATCHES) as services:
            await tenants(services, 7)
            faults.before(plans, "begin", fail)
            with pytest.raises(KeyError, match="interrupted"):
                await plan(services, RunOptions())

            left = await rows(services)
            history = await runs.page(services.catalog, Window())
            unfinished = await runs.unfinished(services.catalog)
            await services.fleet.remove_unplanned()

            assert left == (1, 6)
            assert (history.items, history.total_count, unfinished) == ([], 0, [])
            assert await rows(services) == (0, 0)

    @pytest.mark.parametrize("holder", ["itself", "living", "dead"])
    async def test_has_the_lease_of_a_job(self, settings: Settings, holder: str):
        """Both are lost in the same moment, and to the same processes."""
        async with open_services(settings, works=False) as services:
            ctx, asking = system_context("ada"), new_id()
            held_by = asking if holder == "itself" else new_id()
            job = new_job(ctx, jobs.PROVISION)
            async with services.catalog.begin() as session:
                if holder == "living":
                    await workers.beat(session, held_by)
                await jobs.add(session, job, worker_id=held_by)
                await plans.add(session, Progress(new_id(), ctx.now, "ada"), planner_id=held_by)
                lost_runs = await plans.abandoned(session, asking)
                lost_jobs = await jobs.take_lost(session, worker_id=asking, busy=[])

        assert len(lost_runs) == len(lost_jobs) == (0 if holder == "living" else 1)

    @pytest.mark.slow
    async def test_of_a_dead_process_is_removed(self, settings: Settings):
        async with open_services(settings) as services:
            run_id, planner_id = new_id(), new_id()
            made = await tenants(services, 1)
            async with services.catalog.begin() as session:
                run = Progress(run_id, system_context("ada").now, "ada")
                await plans.add(session, run, planner_id=planner_id)
                await plans.add_items(session, run_id, plans.Selection())
            assert await rows(services) == (1, len(made))

            await services.fleet.remove_unplanned()

            assert await rows(services) == (0, 0)

    @pytest.mark.slow
    async def test_is_not_begun_after_another_process_has_begun_to_remove_it(
        self, settings: Settings
    ):
        """As if the planner had been silent between two batches."""
        slow = Pace(added_max=3, pause_seconds=4.0, beat_seconds=60.0)
        async with (
            open_services(settings, works=False, pace=slow) as services,
            open_services(settings, works=False, pace=slow) as other,
        ):
            await tenants(services, 5)
            planning = asyncio.create_task(plan(services, RunOptions()))
            while await rows(other) != (1, 3):  # noqa: ASYNC110 - by a task
                await asyncio.sleep(0.02)
            await asyncio.to_thread(raw_sql.run, settings.catalog, "DELETE FROM worker")
            await other.fleet.remove_unplanned()

            with pytest.raises(plans.PlanLost):
                await planning
            assert await rows(services) == (0, 0)


@pytest.mark.slow
class TestWaves:
    async def test_are_opened_in_batches(self, settings: Settings):
        async with open_services(settings, works=False, pace=SMALL_BATCHES) as services:
            made = await tenants(services, 12)
            run_id = await plan(services, RunOptions(waves=[7, "100%"]))

            assert await states(services, run_id) == {"Pending": 2, "Waiting": 10}
            async with services.catalog.begin() as session:
                await run_tenants.open_batch(session, run_id, limit=2)
            assert await states(services, run_id) == {"Pending": 4, "Waiting": 8}
            for _ in range(3):
                async with services.catalog.begin() as session:
                    await run_tenants.open_batch(session, run_id, limit=2)
            assert await states(services, run_id) == {"Pending": 7, "Waiting": 5}

        async with open_services(settings, pace=SMALL_BATCHES) as services:
            ended = await services.fleet.wait(run_id)
        assert (ended.success_count, ended.failed_count) == (len(made), 0)

    async def test_are_opened_while_no_tenant_ends(self, gated: Settings, gate: Gate):
        """A batch can be of tenants whose server is away, so the next one does not wait for it."""
        async with open_services(gated, pace=SMALL_BATCHES) as services:
            made = await tenants(services, 9)
            gate.build()
            run_id = await plan(services, RunOptions(waves=[9]))

            async with asyncio.timeout(100):
                while await states(services, run_id) != {"Pending": 9}:  # noqa: ASYNC110 - by workers
                    await asyncio.sleep(0.05)
            gate.open()
            ended = await services.fleet.wait(run_id)
        assert ended.success_count == len(made)


@pytest.mark.slow
class TestCancel:
    async def test_ends_the_tenants_in_batches_behind(self, gated: Settings, gate: Gate):
        """It returns after the first batch."""
        async with open_services(gated, pace=SMALL_BATCHES) as services:
            await tenants(services, 20)
            gate.build()
            run_id = await plan(services, RunOptions(waves=[1, 20]))

            await services.fleet.cancel(system_context("ada"), run_id)
            first = await runs.get(services.catalog, run_id)
            gate.open()
            ended = await services.fleet.wait(run_id)

        assert 2 <= first.failed_count < 19
        assert ended.not_attempted_count == ended.failed_count
        assert ended.success_count + ended.failed_count == 20
