"""Options of a run: its tenants, its waves, and its allowed failures."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from tenantry.catalog import audit, run_results, runs
from tenantry.catalog.runs import MigrationRunNotFound, RunTenant
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.dry_run import Previewer
from tenantry.fleet.migration_runs import PREVIEWS_MAX
from tenantry.fleet.run_options import (
    EVERY_ACTIVE_TENANT,
    PREVIEWED_MAX,
    BadRunOptions,
    RunOptions,
)
from tenantry.fleet.status import SchemaStatus, schema_status
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from tests.conftest import provision
from tests.integration.gates import Gate, is_migrated, mend, spoil, tenants, url_of
from tests.integration.programs import running


async def plan(services: Services, options: RunOptions = EVERY_ACTIVE_TENANT) -> UUID:
    return await services.fleet.plan(system_context("ada"), triggered_by="ada", options=options)


async def ended(services: Services, options: RunOptions) -> list[RunTenant]:
    """Return the states of the tenants in a run, in the order of their creation."""
    run = await services.fleet.wait(await plan(services, options))
    found = await runs.ended(services.catalog, run.id)
    states = [item.state for item in found]
    assert run.total_count == run.success_count + run.failed_count == len(found)
    assert (run.success_count, run.failed_count) == (
        states.count("Success"),
        states.count("Failed"),
    )
    assert run.finished_at == max((one.finished_at for one in found), default=run.started_at)
    return found


async def suspend(services: Services, tenant: Tenant) -> None:
    await services.lifecycle.update(
        system_context("ada"), tenant, name=tenant.name, is_active=False
    )


def ids(items: Sequence[RunTenant | Tenant]) -> list[UUID]:
    return [one.id if isinstance(one, Tenant) else one.tenant_id for one in items]


def errors(items: Sequence[RunTenant]) -> list[str | None]:
    return [item.error for item in items]


class TestOnlyBehind:
    @pytest.mark.slow
    async def test_opens_no_database_of_a_tenant_that_is_seen_at_the_head(
        self, gated: Settings, gate: Gate
    ):
        """The index is trusted: a database that was changed by hand is not migrated."""
        async with open_services(gated) as services:
            made = await tenants(services, 4)
            gate.build()
            gate.open()
            spoil(services, made[2])
            await ended(services, RunOptions())
            mend(services, made[2])
            raw_sql.run(url_of(services, made[0]), "UPDATE tenantry_version SET version_num = ''")
            newcomer = (await provision(services, "newcomer")).tenant
            behind = RunOptions(only_behind=True)

            preview = await services.fleet.preview(system_context("ada"), behind, rehearse=False)
            first = await ended(services, behind)
            again = await ended(services, behind)

            assert [one.tenant_id for one in preview.details] == ids([made[2]])
            assert ids(first) == ids([made[2]])
            assert errors(first) == [None]
            assert again == []
            assert newcomer.schema_revision == (await behind_of(services)).head

    @pytest.mark.slow
    async def test_includes_tenants_that_are_behind_or_were_never_seen(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            run_sql = partial(raw_sql.run, services.settings.catalog)
            run_sql(f"UPDATE tenant SET schema_revision = NULL WHERE name = '{made[1].name}'")
            gate.build()
            gate.open()
            await ended(services, RunOptions(tenant_ids=ids([made[0]])))

            found = await ended(services, RunOptions(only_behind=True))

            assert ids(found) == ids(made[1:])
            assert (await behind_of(services)).up_to_date == 3

    async def test_is_combined_with_named_tenants(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            gate.build()
            gate.open()
            await ended(services, RunOptions(tenant_ids=ids([made[0]])))

            found = await ended(services, RunOptions(tenant_ids=ids(made[:2]), only_behind=True))

            assert ids(found) == ids([made[1]])


async def behind_of(services: Services) -> SchemaStatus:
    return await schema_status(services.catalog, services.streams())


class TestTenantIds:
    async def test_are_all_that_is_migrated(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 4)
            gate.build()
            gate.open()

            found = await ended(services, RunOptions(tenant_ids=ids([made[3], made[1], made[1]])))

            assert ids(found) == ids([made[1], made[3]])
            assert [is_migrated(services, one) for one in made] == [False, True, False, True]

    async def test_that_are_none_make_a_run_of_none(self, services: Services):
        await tenants(services, 1)

        assert await ended(services, RunOptions(tenant_ids=[])) == []

    async def test_must_be_of_active_tenants(self, services: Services):
        """Nothing is recorded when one is not."""
        made = await tenants(services, 2)
        await suspend(services, made[1])
        unknown = new_id()

        for wrong in (made[1].id, unknown):
            with pytest.raises(
                BadRunOptions, match=f"`tenantIds`: {wrong} is no active, writable tenant"
            ):
                await plan(services, RunOptions(tenant_ids=[made[0].id, wrong]))
        with pytest.raises(BadRunOptions, match="and 1 more of them"):
            await plan(services, RunOptions(tenant_ids=[made[1].id, unknown]))

        assert (await runs.page(services.catalog, Window(1, 10))).total_count == 0


class TestRetryOf:
    @pytest.mark.slow
    async def test_is_for_those_that_failed_and_are_active(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 5)
            gate.build()
            gate.open()
            spoil(services, *made[1:4])
            first = await services.fleet.wait(await plan(services))
            mend(services, *made[1:3])
            await suspend(services, made[1])

            found = await ended(services, RunOptions(retry_of=first.id))

            assert first.failed_count == 3
            assert ids(found) == ids([made[2], made[3]])
            assert [item.state for item in found] == ["Success", "Failed"]

    async def test_leaves_out_what_was_migrated_since(self, gated: Settings, gate: Gate):
        """By any run: as many are retried as are left."""
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            gate.build()
            gate.open()
            spoil(services, *made)
            first = await services.fleet.wait(await plan(services))
            mend(services, made[0])
            await ended(services, RunOptions(tenant_ids=ids([made[0]])))

            causes = await run_results.failure_causes(services.catalog, first.id)
            found = await ended(services, RunOptions(retry_of=first.id))

            assert [(one.count, one.left) for one in causes] == [(3, 2)]
            assert ids(found) == ids(made[1:])

    async def test_with_tenant_ids_is_for_those_that_are_both(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            gate.build()
            gate.open()
            spoil(services, made[0], made[1])
            first = await plan(services)
            await services.fleet.wait(first)

            found = await ended(
                services, RunOptions(retry_of=first, tenant_ids=ids([made[1], made[2]]))
            )

            assert ids(found) == ids([made[1]])

    async def test_of_a_run_without_failures_is_for_none(self, services: Services):
        await tenants(services, 2)
        first = await plan(services)
        await services.fleet.wait(first)

        assert await ended(services, RunOptions(retry_of=first, waves=[1, "100%"])) == []

    async def test_of_a_run_that_does_not_exist_is_refused(self, services: Services):
        with pytest.raises(MigrationRunNotFound):
            await plan(services, RunOptions(retry_of=new_id()))


class TestWaves:
    async def test_begin_one_after_the_other(self, gated: Settings, gate: Gate):
        """A wave begins when everything in the one before has ended, failed or not."""
        async with open_services(gated) as services:
            made = await tenants(services, 6)
            gate.build()
            gate.open()
            spoil(services, made[0], made[1])

            found = await ended(services, RunOptions(waves=[1, "50%", "100%"]))

            assert ids(found) == ids(made)
            for before, after in pairwise((found[:1], found[1:3], found[3:])):
                last = max(one.finished_at for one in before if one.finished_at)
                assert last <= min(one.started_at for one in after if one.started_at)
            assert [item.state for item in found] == ["Failed"] * 2 + ["Success"] * 4

    async def test_leave_out_what_the_last_one_does(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 5)
            gate.build()
            gate.open()

            found = await ended(services, RunOptions(waves=[1, 3]))

            assert [item.state for item in found] == ["Success"] * 3 + ["Failed"] * 2
            assert set(errors(found[3:])) == {"not attempted: left out by the last wave"}
            assert {item.applied for item in found[3:]} == {""}
            assert not any(is_migrated(services, one) for one in made[3:])

    @pytest.mark.slow
    async def test_hold_over_processes_and_kills(self, gated: Settings, gate: Gate):
        """A process is killed in the first wave; the next one begins with it, and ends it all."""
        async with open_services(gated) as services:
            made = await tenants(services, 6)
            await services.worker.stop()
            gate.build()
            async with running("work", gated) as process:
                assert await process.line() == "ready"
                run_id = await plan(services, RunOptions(waves=[2, "100%"]))
                await _until_claimed(gated, run_id, 2)
                await asyncio.sleep(0.3)
                assert _claimed_count(gated, run_id) == 2, "the others wait"
            gate.open()

        async with running("work", gated) as one, running("work", gated) as other:
            assert (await one.line(), await other.line()) == ("ready", "ready")
            async with open_services(gated, works=False) as services:
                run = await services.fleet.wait(run_id)
                found = await runs.ended(services.catalog, run_id)
                assert all(is_migrated(services, tenant) for tenant in made)

        assert (run.success_count, run.failed_count) == (6, 0)
        last = max(item.finished_at for item in found[:2] if item.finished_at)
        assert last <= min(item.started_at for item in found[2:] if item.started_at)
        assert {item.applied for item in found} == {"g1_gate"}


@pytest.mark.slow
class TestMaxFailures:
    async def test_stops_the_run_when_there_are_more(self, gated: Settings, gate: Gate):
        """What is in work is ended; nothing starts while it may be one too many."""
        async with open_services(gated) as services:
            made = await tenants(services, 12)
            gate.build()
            gate.open()
            spoil(services, *made)

            found = await ended(services, RunOptions(max_failures=3))

            left = [one for one in errors(found) if one and one.startswith("not attempted")]
            assert set(left) == {"not attempted: more than 3 failed"}
            tried = len(found) - len(left)
            assert 4 <= tried <= 5, "one too many, and one beside it that had begun"
            assert [item.state for item in found] == ["Failed"] * 12

    async def test_keeps_the_next_wave_from_beginning(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 6)
            gate.build()
            gate.open()
            spoil(services, made[1])

            found = await ended(services, RunOptions(waves=["50%", "100%"], max_failures=0))

            assert found[0].state == "Success"
            assert "already exists" in str(found[1].error)
            assert set(errors(found[3:])) == {"not attempted: one failed"}
            assert not any(is_migrated(services, one) for one in made[3:])

    async def test_that_is_kept_changes_nothing(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 5)
            gate.build()
            gate.open()
            spoil(services, made[1], made[3])

            found = await ended(services, RunOptions(max_failures="40%", waves=[2, "100%"]))

            assert [item.state for item in found].count("Success") == 3
            assert all("already exists" in (one or "already exists") for one in errors(found))


class TestLabel:
    async def test_is_kept_and_audited(self, services: Services):
        run_id = await plan(services, RunOptions(label="spring release"))

        assert (await runs.get(services.catalog, run_id)).label == "spring release"
        entry = (await audit.LOG.page(services.catalog, Window(1, 1))).items[0]
        assert (entry.action, entry.target) == ("migration-run.start", f"{run_id} spring release")


class TestBadRunOptions:
    @pytest.mark.parametrize(
        "options", [RunOptions(waves=[2, "10%"]), RunOptions(waves=[0])], ids=str
    )
    async def test_leaves_nothing_behind(self, services: Services, options: RunOptions):
        await tenants(services, 3)

        with pytest.raises(BadRunOptions, match="`waves`"):
            await plan(services, options)

        assert (await runs.page(services.catalog, Window(1, 10))).total_count == 0
        assert await runs.unfinished(services.catalog) == []


class TestDryRun:
    @pytest.mark.slow
    async def test_returns_what_is_pending_and_changes_nothing(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await tenants(services, 4)
            gate.build()
            gate.open()
            first = await ended(services, RunOptions(tenant_ids=[made[0].id]))
            await services.databases.forget(made[3].id)
            await services.databases.server("default").drop(made[3].database_name)
            before = [raw_sql.dump(url_of(services, one)) for one in made[:3]]

            found = await services.fleet.preview(system_context("ada"), rehearse=False)

            assert (found.total, found.pending, found.up_to_date, found.failed) == (4, 2, 1, 1)
            assert [one.tenant_id for one in found.details] == ids(made)
            done, todo, _, lost = found.details
            head = done.current_revision or ""
            assert (done.pending_migrations, done.error) == (None, None)
            assert head.endswith("/g1")
            assert (todo.current_revision, todo.pending_migrations, todo.error) == (
                head.removesuffix("g1") + "begin",
                "g1_gate",
                None,
            )
            assert (lost.current_revision, lost.pending_migrations) == (None, "")
            assert "does not exist" in (lost.error or "")
            assert [raw_sql.dump(url_of(services, one)) for one in made[:3]] == before
            assert await _history(services) == {first[0].run_id}

    async def test_rehearsed_returns_what_would_fail(self, gated: Settings, gate: Gate):
        """It is audited, because it takes the locks of a migration."""
        async with open_services(gated) as services:
            made = await tenants(services, 3)
            gate.build()
            gate.open()
            spoil(services, made[1])
            before = [raw_sql.dump(url_of(services, one)) for one in made]

            options = RunOptions(tenant_ids=ids(made[:2]), label="trial")
            found = await services.fleet.preview(system_context("ada"), options, rehearse=True)

            assert (found.total, found.pending, found.up_to_date, found.failed) == (2, 1, 0, 1)
            assert found.details[1].pending_migrations == "g1_gate"
            assert "already exists" in (found.details[1].error or "")
            assert [raw_sql.dump(url_of(services, one)) for one in made] == before
            assert await _history(services) == set()
            entry = (await audit.LOG.page(services.catalog, Window(1, 1))).items[0]
            assert (entry.action, entry.target) == ("migration-run.rehearse", "trial")

    async def test_refuses_what_a_run_refuses(self, services: Services):
        made = await tenants(services, 3)
        ctx = system_context("ada")

        for options in (
            RunOptions(tenant_ids=[made[0].id, new_id()]),
            RunOptions(waves=[2, "10%"]),
        ):
            with pytest.raises(BadRunOptions):
                await services.fleet.preview(ctx, options, rehearse=False)
        with pytest.raises(MigrationRunNotFound):
            await services.fleet.preview(ctx, RunOptions(retry_of=new_id()), rehearse=False)

    @pytest.mark.slow
    async def test_refuses_more_tenants_than_it_can_hold(self, services: Services):
        """Its details are in memory, those of a run are not."""
        [only] = await tenants(services, 1)
        ctx = system_context("ada")
        await asyncio.to_thread(
            raw_sql.run, services.settings.catalog, _copies_of_tenants(services, PREVIEWED_MAX)
        )

        with pytest.raises(BadRunOptions, match="at most 100,000 tenants"):
            await services.fleet.preview(ctx, rehearse=False)
        chosen = RunOptions(tenant_ids=[only.id])
        assert (await services.fleet.preview(ctx, chosen, rehearse=False)).total == 1


def _copies_of_tenants(services: Services, count: int) -> str:
    """Return a statement that adds copies of a tenant's row, without databases."""
    is_sqlite = services.settings.catalog.startswith("sqlite")
    new_uuid = "lower(hex(randomblob(16)))" if is_sqlite else "gen_random_uuid()"
    return f"""
        INSERT INTO tenant (id, name, canonical_name, database_name, server_name, state, is_active,
            is_read_only, modules, created_at, schema_revision)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
        SELECT {new_uuid}, 'T' || i, 't' || i, 'd' || i, server_name, state, is_active,
            is_read_only, modules, created_at, schema_revision FROM tenant, n
    """


async def _history(services: Services) -> set[UUID]:
    return {run.id for run in (await runs.page(services.catalog, Window(1, 10))).items}


def _claimed_count(settings: Settings, run_id: UUID) -> int:
    text = run_id.hex if settings.catalog.startswith("sqlite") else str(run_id)
    sql = f"SELECT count(*) FROM tenant_migration WHERE worker_id IS NOT NULL AND run_id = '{text}'"
    return int(raw_sql.rows(settings.catalog, sql)[0][0])


async def _until_claimed(settings: Settings, run_id: UUID, count: int) -> None:
    async with asyncio.timeout(60):
        while _claimed_count(settings, run_id) < count:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.02)


class TestDryRuns:
    async def test_go_on_one_at_a_time(self, services: Services, faults: Faults):
        """Each uses the connections of a run: many at once would exhaust them."""
        ctx, going_on, most = system_context("ada"), 0, 0

        async def begin(*_: Any, **__: Any) -> None:
            nonlocal going_on, most
            going_on += 1
            most = max(most, going_on)
            await asyncio.sleep(0.01)

        def end(*_: Any, **__: Any) -> None:
            nonlocal going_on
            going_on -= 1

        faults.before(Previewer, "preview", begin)
        faults.after(Previewer, "preview", end)
        await asyncio.gather(*(services.fleet.preview(ctx, rehearse=False) for _ in range(5)))

        assert most == PREVIEWS_MAX
