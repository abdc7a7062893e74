"""Runs: claims, outcomes, and exact counts."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenantry.catalog import run_claims, run_results, run_tenants, runs, tenants, workers
from tenantry.catalog.activity import activity_of
from tenantry.catalog.runs import MigrationState, Outcome, RunTenant
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.catalog.workers import InWork, Report
from tenantry.cli.printing import progress
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import SERVER_DEFAULT, Settings
from testkit import raw_sql
from testkit.faults import Faults
from testkit.revisions import AlembicFolder
from tests.conftest import HEAD, provision

TENANTS = 12
SILENCE_MS = 5_000  # contract, section 5


@pytest.fixture(name="quiet")
async def _quiet(settings: Settings) -> AsyncIterator[Services]:
    """Services that do not work on runs, over a dozen tenants without databases."""
    async with open_services(settings) as services:
        await services.worker.stop()
        for number in range(TENANTS):
            await _add(services, f"tenant{number:02}")
        yield services


async def _add(services: Services, name: str) -> Tenant:
    tenant_id, worker_id = new_id(), services.heartbeat.worker_id
    added = Tenant(
        id=tenant_id,
        name=name,
        database_name=f"tenantry_{tenant_id.hex}",
        server_name="default",
        state=TenantState.PROVISIONING.value,
        is_active=True,
        modules=frozenset(),
        created_at=utc_now(),
        schema_revision=None,
    )
    await tenants.add(services.catalog, added, worker_id=worker_id)
    async with services.catalog.change(system_context("test"), "test", tenant_id) as session:
        ready = await tenants.set_ready(session, tenant_id, worker_id=worker_id, revision="0001")
    assert ready is not None
    return ready


async def planned(services: Services) -> UUID:
    return await services.fleet.plan(system_context("test"), triggered_by="ada@example.com")


async def worker(services: Services) -> UUID:
    made = new_id()
    await workers.beat(services.catalog, made)
    return made


async def claimed(services: Services, by: UUID, limit: int = 100) -> list[RunTenant]:
    for run in await runs.unfinished(services.catalog):
        on_server = partial(run_claims.claim, server_name=SERVER_DEFAULT, limit=limit)
        for were_held in (False, True):
            if items := await on_server(services.catalog, run.id, by, were_held=were_held):
                return items
    return []


async def record(
    services: Services,
    by: UUID,
    items: list[RunTenant],
    state: MigrationState = MigrationState.SUCCESS,
    error: str = "why",
    *,
    cause: str | None = None,
    position: str | None = HEAD,
) -> None:
    ended = [
        Outcome(
            msgspec.structs.replace(
                item,
                state=state.value,
                applied=None if state is MigrationState.SUCCESS else "",
                error=None if state is MigrationState.SUCCESS else error,
                started_at=utc_now(),
                finished_at=utc_now(),
                cause=None if state is MigrationState.SUCCESS else cause or error,
            ),
            position,
        )
        for item in items
    ]
    async with services.catalog.begin() as session:
        await run_tenants.record(session, ended, by)


class TestPlan:
    async def test_has_a_pending_row_for_each_active_tenant(self, quiet: Services):
        suspended = await tenants.get_by_name(quiet.catalog, "tenant03")
        async with quiet.catalog.change(system_context("t"), "t", "x") as session:
            await tenants.update(
                session, suspended.id, name="tenant03", is_active=False, modules=frozenset()
            )

        run_id = await planned(quiet)

        run = await runs.get(quiet.catalog, run_id)
        assert (run.total_count, run.success_count, run.failed_count) == (TENANTS - 1, 0, 0)
        assert run.finished_at is None
        assert run.triggered_by == "ada@example.com"
        assert await runs.ended(quiet.catalog, run_id) == []
        assert suspended.id not in {
            item.tenant_id for item in await claimed(quiet, await worker(quiet))
        }

    async def test_without_tenants_has_ended(self, services: Services):
        run = await runs.get(services.catalog, await planned(services))

        assert (run.total_count, run.success_count, run.failed_count) == (0, 0, 0)
        assert run.finished_at == run.started_at


class TestClaim:
    async def test_by_two_at_once_is_disjoint(self, quiet: Services, settings: Settings):
        async with open_services(settings) as other:
            await other.worker.stop()
            await planned(quiet)
            several = [(quiet, await worker(quiet)), (other, await worker(other))] * 4

            found = await asyncio.gather(*(claimed(where, by, 2) for where, by in several))

            ids = [item.tenant_id for items in found for item in items]
            assert len(ids) == len(set(ids))
            rest = await claimed(quiet, several[0][1])
            assert len(ids) + len(rest) == TENANTS

    async def test_of_a_silent_worker_is_free_after_a_while_and_not_before(
        self, quiet: Services, settings: Settings
    ):
        """Silent: no heartbeat for five seconds, by the clock of the database."""
        await planned(quiet)
        first, second = await worker(quiet), await worker(quiet)
        assert len(await claimed(quiet, first)) == TENANTS

        set_back(settings, first, SILENCE_MS - 1_000)
        before = await claimed(quiet, second)
        silent_ms = await workers.now_ms(quiet.catalog) - seen_at_ms(settings, first)
        set_back(settings, first, 1_100)
        after = await claimed(quiet, second)

        assert not before or silent_ms > SILENCE_MS, "only if this machine took a second for it"
        assert len(before or after) == TENANTS

    @pytest.mark.slow
    async def test_of_a_worker_that_beats_stays_its_own(self, quiet: Services):
        await planned(quiet)
        second = await worker(quiet)
        mine = await claimed(quiet, quiet.heartbeat.worker_id)

        await asyncio.sleep(SILENCE_MS / 1000 + 0.5)

        assert len(mine) == TENANTS
        assert await claimed(quiet, second) == [], "the services beat in the background"

    async def test_of_its_own_is_never_made_again(self, quiet: Services, settings: Settings):
        """A worker with a late heartbeat is working on them."""
        await planned(quiet)
        late = await worker(quiet)
        await claimed(quiet, late)

        set_back(settings, late, SILENCE_MS + 1_000)

        assert await claimed(quiet, late) == []

    async def test_takes_the_oldest_run_first(self, quiet: Services):
        first = await planned(quiet)
        await planned(quiet)

        items = await claimed(quiet, await worker(quiet), TENANTS)

        assert {item.run_id for item in items} == {first}

    async def test_released_is_free_at_once(self, quiet: Services):
        await planned(quiet)
        first, second = await worker(quiet), await worker(quiet)
        mine = await claimed(quiet, first)
        await record(quiet, first, mine[:3])

        await run_claims.give_up(quiet.catalog, first, may_have_started=False)

        assert len(await claimed(quiet, second)) == TENANTS - 3


class TestLost:
    async def test_is_what_another_worker_has_taken_over_or_ended(
        self, quiet: Services, settings: Settings
    ):
        """Its run may have ended and been undone: its first worker must not try it again."""
        run_id, by, other = await planned(quiet), await worker(quiet), await worker(quiet)
        first, second, *_ = await claimed(quiet, by)

        async def lost() -> list[bool]:
            return [
                await run_claims.is_lost(quiet.catalog, one, worker_id=by)
                for one in (first, second)
            ]

        assert await lost() == [False, False]
        await record(quiet, by, [first])
        set_back(settings, by, SILENCE_MS + 1_000)
        await run_claims.claim(
            quiet.catalog, run_id, other, server_name=SERVER_DEFAULT, limit=100, were_held=True
        )
        assert await lost() == [True, True]


class TestActivity:
    async def test_of_a_silent_worker_is_abandoned_until_another_claims_it(
        self, quiet: Services, settings: Settings
    ):
        run_id, dead = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, dead, 3)
        work = [InWork(run_id, one.tenant_id, one.tenant_name, "default", 10) for one in items[:2]]
        await workers.beat(quiet.catalog, dead, Report(in_work=work))

        async def activity() -> tuple[list[UUID], list[UUID]]:
            found = await activity_of(quiet.catalog, await runs.get(quiet.catalog, run_id))
            in_work, abandoned = found.in_work, found.abandoned
            return [one.tenant_id for one in in_work], [one.tenant_id for one in abandoned]

        first, second = (one.tenant_id for one in items[:2])
        assert await activity() == ([first, second], [])
        set_back(settings, dead, SILENCE_MS + 1_000)
        assert await activity() == ([], [first, second])
        await run_claims.claim(
            quiet.catalog,
            run_id,
            await worker(quiet),
            server_name=SERVER_DEFAULT,
            limit=1,
            were_held=True,
        )
        assert await activity() == ([], [second])


class TestRecord:
    async def test_counts_and_ends_the_run_with_its_last_part(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        await record(quiet, by, items[:4], MigrationState.FAILED)
        between = await runs.get(quiet.catalog, run_id)

        await record(quiet, by, items[4:])

        run = await runs.get(quiet.catalog, run_id)
        assert (between.success_count, between.failed_count, between.finished_at) == (0, 4, None)
        assert (run.success_count, run.failed_count) == (TENANTS - 4, 4)
        assert run.finished_at is not None
        assert abs(run.finished_at - utc_now()) < timedelta(seconds=10)
        ended = await runs.ended(quiet.catalog, run_id)
        assert [item.tenant_id for item in ended] == sorted(item.tenant_id for item in items)
        assert await runs.unfinished(quiet.catalog) == []

    async def test_is_for_the_holder_alone(self, quiet: Services, settings: Settings):
        """A worker that lost a claim may not overwrite the outcome of another."""
        run_id = await planned(quiet)
        first, second = await worker(quiet), await worker(quiet)
        items = await claimed(quiet, first)
        set_back(settings, first, SILENCE_MS + 1_000)
        await claimed(quiet, second, 5)

        await record(quiet, first, items, MigrationState.FAILED)

        run = await runs.get(quiet.catalog, run_id)
        assert (run.success_count, run.failed_count) == (0, TENANTS - 5)
        assert run.finished_at is None

    async def test_that_is_late_makes_the_revision_unknown_if_it_is_another(
        self, quiet: Services, settings: Settings
    ):
        """Others had seen the tenant before the late process committed, as after an undo."""
        run_id = await planned(quiet)
        first, second = await worker(quiet), await worker(quiet)
        same, other = await claimed(quiet, first, 2)
        set_back(settings, first, SILENCE_MS + 1_000)
        taken = await run_claims.claim(
            quiet.catalog, run_id, second, server_name=SERVER_DEFAULT, limit=2, were_held=True
        )
        await record(quiet, second, taken)

        await record(quiet, first, [same])
        await record(quiet, first, [other], position="0001")

        seen = [await tenants.get(quiet.catalog, one.tenant_id) for one in (same, other)]
        assert [one.schema_revision for one in seen] == [HEAD, None]

    async def test_twice_counts_once(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)

        await record(quiet, by, items[:2])
        await record(quiet, by, items[:2], MigrationState.FAILED)

        run = await runs.get(quiet.catalog, run_id)
        assert (run.success_count, run.failed_count) == (2, 0)

    async def test_twice_keeps_the_last_known_revision(self, quiet: Services):
        """The answer to the first COMMIT was lost, and a failure may not know the revision."""
        await planned(quiet)
        by = await worker(quiet)
        (item,) = await claimed(quiet, by, 1)
        before = (await tenants.get(quiet.catalog, item.tenant_id)).schema_revision

        for _ in range(2):
            await record(quiet, by, [item], MigrationState.FAILED, position=None)

        assert before is not None
        assert (await tenants.get(quiet.catalog, item.tenant_id)).schema_revision == before

    async def test_twice_in_one_batch_counts_once(self, quiet: Services, settings: Settings):
        """Who lost its items while it was silent may take them over again, and end them twice."""
        run_id, by, other = await planned(quiet), await worker(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        for silent, taking in ((by, other), (other, by)):
            set_back(settings, silent, SILENCE_MS + 1_000)
            again = await claimed(quiet, taking)

        await record(quiet, by, [*items, *again])

        run = await runs.get(quiet.catalog, run_id)
        assert len(items) == len(again) == TENANTS
        assert (run.success_count, run.failed_count) == (TENANTS, 0)

    async def test_by_many_at_once_counts_exactly(self, quiet: Services, settings: Settings):
        async with open_services(settings) as other:
            await other.worker.stop()
            runs_planned = [await planned(quiet) for _ in range(4)]

            async def work(services: Services) -> None:
                by = await worker(services)
                while items := await claimed(services, by, 3):
                    await record(services, by, items[:1], MigrationState.FAILED)
                    if items[1:]:
                        await record(services, by, items[1:])

            await asyncio.gather(*(work(one) for one in (quiet, other) for _ in range(2)))

            for run_id in runs_planned:
                run = await runs.get(quiet.catalog, run_id)
                ended = await runs.ended(quiet.catalog, run_id)
                states = [item.state for item in ended]
                assert run.total_count == TENANTS == len(ended)
                assert run.success_count == states.count("Success")
                assert run.failed_count == states.count("Failed")
                assert run.finished_at is not None

    async def test_notes_where_the_tenant_was_seen(self, quiet: Services):
        await planned(quiet)
        by = await worker(quiet)
        (item,) = await claimed(quiet, by, 1)

        await record(quiet, by, [item])

        assert (await tenants.get(quiet.catalog, item.tenant_id)).schema_revision == HEAD


class TestEndedSome:
    async def test_is_a_page_in_the_order_of_the_tenants_making(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        await record(quiet, by, items[6:], MigrationState.FAILED)
        await record(quiet, by, items[:4])

        first = await runs.ended_batch(quiet.catalog, run_id, limit=7)
        rest = await runs.ended_batch(quiet.catalog, run_id, after=first[-1].tenant_id, limit=7)

        assert [item.tenant_id for item in first + rest] == [
            item.tenant_id for item in items[:4] + items[6:]
        ]
        assert len(first) == 7

    async def test_may_be_of_one_state(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        await record(quiet, by, items[:3], MigrationState.FAILED)
        await record(quiet, by, items[3:])

        failed = await runs.ended_batch(quiet.catalog, run_id, state=MigrationState.FAILED)

        assert [item.tenant_id for item in failed] == [item.tenant_id for item in items[:3]]

    async def test_is_all_there_is_one_after_the_other(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        await record(quiet, by, items)

        sizes = [len(some) async for some in runs.each_ended(quiet.catalog, run_id, limit=5)]

        assert sizes == [5, 5, 2]
        assert len(await runs.ended(quiet.catalog, run_id)) == TENANTS


class TestEndedAfter:
    async def test_is_in_the_order_of_ending(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        for item in (items[7], items[2], items[9]):
            await record(quiet, by, [item])

        found = await runs.ended_after(quiet.catalog, run_id, 0)
        later = await runs.ended_after(quiet.catalog, run_id, found[0].sequence or 0, limit=1)

        assert [one.tenant_id for one in found] == [items[at].tenant_id for at in (7, 2, 9)]
        assert later == found[1:2]
        assert await runs.ended_after(quiet.catalog, run_id, found[-1].sequence or 0) == []

    async def test_misses_nothing_while_many_write(self, quiet: Services, settings: Settings):
        """Who follows a run sees each item once, however many processes end them."""
        async with open_services(settings) as other:
            await other.worker.stop()
            run_id = await planned(quiet)

            async def work(services: Services) -> None:
                by = await worker(services)
                while items := await claimed(services, by, 1):
                    await record(services, by, items)

            working = asyncio.gather(*(work(one) for one in (quiet, other) for _ in range(2)))
            seen: list[RunTenant] = []
            while len(seen) < TENANTS:
                last = seen[-1].sequence or 0 if seen else 0
                seen += await runs.ended_after(quiet.catalog, run_id, last)
            await working

        assert {item.tenant_id for item in seen} == {
            item.tenant_id for item in await runs.ended(quiet.catalog, run_id)
        }
        assert len(seen) == TENANTS

    async def test_gives_no_number_to_what_was_not_written(
        self, quiet: Services, settings: Settings
    ):
        run_id = await planned(quiet)
        first, second = await worker(quiet), await worker(quiet)
        items = await claimed(quiet, first, 4)
        set_back(settings, first, SILENCE_MS + 1_000)
        await run_claims.claim(
            quiet.catalog, run_id, second, server_name=SERVER_DEFAULT, limit=2, were_held=True
        )

        await record(quiet, first, items)
        await record(quiet, second, items[:2])

        found = await runs.ended_after(quiet.catalog, run_id, 0)
        assert {one.tenant_id for one in found[:2]} == {one.tenant_id for one in items[2:]}
        assert {one.tenant_id for one in found[2:]} == {one.tenant_id for one in items[:2]}


EXISTS = 'a1: relation "…" already exists (SQLSTATE 42P07).'


class TestFailureCauses:
    async def test_are_counted_the_commonest_first(self, quiet: Services):
        run_id, by = await planned(quiet), await worker(quiet)
        items = await claimed(quiet, by)
        for number, item in enumerate(items[:5]):
            why = f'a1: relation "t_{number}" already exists (SQLSTATE 42P07).'
            await record(quiet, by, [item], MigrationState.FAILED, why, cause=EXISTS)
        await record(quiet, by, items[5:7], MigrationState.FAILED, "not attempted: run cancelled")
        await record(quiet, by, items[7:])

        found = await run_results.failure_causes(quiet.catalog, run_id)

        assert [(one.cause, one.count) for one in found] == [
            (EXISTS, 5),
            ("not attempted: run cancelled", 2),
        ]
        assert found[0].sample_tenant_id in {one.tenant_id for one in items[:5]}
        assert found[1].sample_tenant_id in {one.tenant_id for one in items[5:7]}

    async def test_have_a_sample_each_while_the_run_goes_on(self, quiet: Services, faults: Faults):
        """A failure between the two reads is in neither, or has its sample."""
        run_id, mine = await planned(quiet), await worker(quiet)
        first, second, *_ = await claimed(quiet, mine)
        await record(quiet, mine, [first], MigrationState.FAILED, "one")

        async def fail(*_: Any) -> None:
            await record(quiet, mine, [second], MigrationState.FAILED, "another")

        faults.after(runs, "ended", fail)
        found = await progress.found(quiet.catalog, await runs.get(quiet.catalog, run_id))

        assert {one.sample_tenant_id for one in found.causes} <= {
            one.tenant_id for one in found.items
        }
        assert len(await run_results.failure_causes(quiet.catalog, run_id)) == 2

    async def test_are_none_without_failures(self, services: Services):
        run_id = await planned(services)

        assert await run_results.failure_causes(services.catalog, run_id) == []


class TestWork:
    async def test_fails_one_bad_tenant_and_migrates_the_others(self, services: Services):
        """A missing database fails that tenant alone, and is not created."""
        made = [await provision(services, name) for name in ("acme", "globex", "initech")]
        lost = made[1].tenant
        server = services.databases.server(lost.server_name)
        await services.databases.forget(lost.id)
        await server.drop(lost.database_name)

        run = await services.fleet.wait(await planned(services))

        items = {item.tenant_name: item for item in await runs.ended(services.catalog, run.id)}
        assert (run.total_count, run.success_count, run.failed_count) == (3, 2, 1)
        assert "does not exist" in (items["globex"].error or "")
        assert items["globex"].applied == ""
        assert items["acme"].applied is None
        assert await server.names(lost.database_name) == []

    @pytest.mark.slow
    async def test_is_shared_by_processes_and_each_tenant_is_migrated_once(
        self, services: Services, settings: Settings
    ):
        for number in range(6):
            await provision(services, f"tenant{number}")
        async with open_services(settings) as other:
            several = [await planned(one) for one in (services, other, services)]
            for run_id in several:
                run = await services.fleet.wait(run_id)
                assert (run.total_count, run.success_count, run.failed_count) == (6, 6, 0)

    @pytest.mark.slow
    async def test_leaves_a_run_to_processes_with_its_revisions(
        self, settings: Settings, folder: AlembicFolder
    ):
        """A process without them would report a tenant at its own head as a success."""
        folder.add("u1_create_notes", "op.create_table('note', sa.Column('id', sa.Integer))")
        knowing = settings.model_copy(update={"tenant_migrations": folder.begin()})
        async with open_services(settings) as ignorant:
            made = await provision(ignorant, "acme")
            async with open_services(knowing) as services:
                await services.worker.stop()
                run_id = await planned(services)
            await asyncio.sleep(1.5)
            assert (await runs.get(ignorant.catalog, run_id)).finished_at is None

            async with open_services(knowing) as services:
                run = await services.fleet.wait(run_id)
                url = services.databases.server("default").url(made.tenant.database_name)

        assert (run.success_count, run.failed_count) == (1, 0)
        assert "note" in raw_sql.tables(url)


def set_back(settings: Settings, worker_id: UUID, milliseconds: int) -> None:
    raw_sql.run(
        settings.catalog,
        f"UPDATE worker SET seen_at_ms = seen_at_ms - {milliseconds} {_is(settings, worker_id)}",
    )


def seen_at_ms(settings: Settings, worker_id: UUID) -> int:
    sql = f"SELECT seen_at_ms FROM worker {_is(settings, worker_id)}"
    return int(raw_sql.rows(settings.catalog, sql)[0][0])


def _is(settings: Settings, worker_id: UUID) -> str:
    text = worker_id.hex if settings.catalog.startswith("sqlite") else str(worker_id)
    return f"WHERE id = '{text}'"
