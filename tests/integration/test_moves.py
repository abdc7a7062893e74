"""A move of a tenant: what serving processes see, and what a failure leaves."""

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import sqlalchemy as sa

from tenantry.backup import creating, dumps, moving, replacing, same_engine
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.dumps import CopyDiffers
from tenantry.backup.online import MOVE_LIMITS, MoveLimits
from tenantry.backup.replacing import TenantChanged
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import deleted_tenants, job_queue, moves, runs, tenants
from tenantry.catalog import jobs as job_rows
from tenantry.catalog.job_states import INTERRUPTED, RELEASED, Job
from tenantry.catalog.jobs import TenantMoving
from tenantry.catalog.tenants import Tenant
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.db.urls import sqlite_path
from tenantry.db.write_fence import DatabaseBusy
from tenantry.fleet.deletion import Deletion
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.tables import user
from tenantry.work import ledger
from tenantry.work.progress import Progress
from tenantry.work.running import PROGRESS_SECONDS, JobCancelled
from testkit import raw_sql
from testkit.faults import Faults
from tests.conftest import World
from tests.integration import gates
from tests.integration.engines import on_postgresql
from tests.integration.gates import Gate

pytestmark = pytest.mark.slow

FAR = "far"
CLAIM_SECONDS_MAX = 30
PROFILE = "/api/tenant/auth/profile"
PUBLIC = "/api/public/blog/posts"
REDIRECT_WAITS = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND query LIKE 'UPDATE tenant_migration SET database_name%'
"""
CHANGED = {"email": "owner@acme.example.com", "fullName": "Renamed"}
WRITE = Statement[Any](sa.update(user).values(full_name="stale"))


@pytest.fixture(name="settings")
def _settings(settings: Settings) -> Settings:
    """With a second tenant server: another folder, or the same server under another name."""
    url = settings.servers["default"].address
    far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / 'far'}"
    servers = {**settings.tenant_servers, FAR: {"url": far}}
    return Settings(**{**settings.model_dump(exclude_unset=True), "tenant_servers": servers})


@pytest.fixture(name="other")
async def _other(world: World, settings: Settings) -> AsyncIterator[Services]:
    """Another process of the same service."""
    del world
    async with open_services(settings, works=False) as services:
        yield services


async def move(
    services: Services, tenant: Tenant, limits: MoveLimits = MOVE_LIMITS
) -> moving.Moved:
    return await moving.move(
        system_context("test"),
        services.copying,
        tenant,
        server_name=FAR,
        progress=Progress(),
        limits=limits,
    )


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


async def newest_job(services: Services) -> Job:
    return (await job_rows.page(services.catalog, Window(1, 1))).items[0]


async def databases(services: Services) -> list[str]:
    names = [
        name
        for server in sorted(services.databases.server_names)
        for name in await services.databases.server(server).names("tenantry_")
    ]
    return sorted(name for name in names if "template" not in name)


class TestMove:
    async def test_keeps_the_logins_and_is_seen_by_the_process_that_serves_the_tenant(
        self, world: World
    ):
        async with await world.owner(world.acme) as client:
            before = (await client.get(PROFILE)).content

            await move(world.services, world.acme.tenant)

            assert (await client.get(PROFILE)).content == before
            renamed = await client.put(PROFILE, json=CHANGED)
            assert renamed.status_code == 200, renamed.text

    async def test_is_seen_by_every_other_process(self, world: World, other: Services):
        before = await other.databases.open(world.acme.tenant, writes=False)

        moved = await move(world.services, world.acme.tenant)

        tenant = await tenants.get(other.catalog, world.acme.tenant.id)
        assert tenant == moved.tenant
        assert await other.databases.open(tenant, writes=False) is not before

    async def test_lets_no_write_into_the_old_database_by_a_process_that_does_not_know_it(
        self, world: World, other: Services, faults: Faults
    ):
        """As if the other process had not read the epoch yet, and had an open connection."""
        acme = world.acme.tenant
        stale = await other.databases.open(acme, writes=True)
        url = url_of(other, acme)
        caught: list[Exception] = []

        async def write(*_: Any, **__: Any) -> None:
            for _ in range(2):  # with the connection that it has, and with a new one
                with pytest.raises(DatabaseUnavailable) as found:
                    await stale.execute(WRITE)
                caught.append(found.value)

        faults.after(same_engine, "copy", write)
        moved = await move(world.services, acme)

        assert len(caught) == 2
        sql = "SELECT count(*) FROM tenantry_user WHERE full_name = 'stale'"
        assert raw_sql.rows(url_of(other, moved.tenant), sql) == [(0,)]
        assert url_of(other, moved.tenant) != url

    async def test_answers_reads_while_it_copies(self, world: World, faults: Faults):
        during: list[int] = []
        async with world.public(world.acme) as reader, await world.owner(world.acme) as writer:

            async def read(*_: Any, **__: Any) -> None:
                during.append((await reader.get(PUBLIC)).status_code)
                during.append((await writer.put(PROFILE, json=CHANGED)).status_code)

            faults.after(same_engine, "copy", read)
            await move(world.services, world.acme.tenant)

        assert during == [200, 403]

    async def test_waits_for_a_transaction_and_gives_up_when_it_does_not_end(
        self, world: World, other: Services
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        database = await other.databases.open(acme, writes=True)
        async with database.begin() as session:
            await session.execute(WRITE)

            with pytest.raises(DatabaseBusy):
                await move(services, acme, MoveLimits(fence_seconds=0.5))

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_changes_nothing_if_the_copy_differs(self, world: World, faults: Faults):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)

        def damage(_source: str, target: str, *_: Any, **__: Any) -> None:
            raw_sql.run(target, "UPDATE tenantry_user SET full_name = 'damaged'")

        faults.after(dumps, "copy", damage)
        with pytest.raises(CopyDiffers, match="tenantry_user"):
            await move(services, acme)

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        assert (await newest_job(services)).state == "failed"
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_leaves_the_tenant_where_it_was_when_it_is_cancelled(
        self, world: World, faults: Faults
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        reached = asyncio.Event()

        async def hang(*_: Any, **__: Any) -> None:
            reached.set()
            await asyncio.sleep(60)

        faults.before(same_engine, "copy", hang)
        running = asyncio.create_task(move(services, acme))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_that_is_cancelled_after_the_cut_over_ends_as_moved(
        self, world: World, faults: Faults
    ):
        """The tenant has the new database, so a report of a cancellation would be wrong."""
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        reached = asyncio.Event()

        async def wait(*_: Any, **__: Any) -> None:
            reached.set()
            await asyncio.sleep(0.2)

        faults.after(moves, "relocate", wait)
        running = asyncio.create_task(move(services, acme))
        await reached.wait()
        running.cancel()
        moved = await running

        assert moved.tenant == await tenants.get(services.catalog, acme.id)
        assert moved.tenant.server_name == FAR
        job = await newest_job(services)
        assert (job.state, job.error) == ("done", None)
        assert len(await databases(services)) == len(before)

    async def test_that_an_admin_cancels_during_the_cut_over_ends_as_moved(
        self, world: World, faults: Faults
    ):
        services, acme, ctx = world.services, world.acme.tenant, system_context("test")
        copied = asyncio.Event()

        async def cancel(*_: Any) -> None:
            if copied.is_set():
                job_id = (await newest_job(services)).id
                await job_queue.cancel(services.catalog, job_id, now=ctx.now)
                await asyncio.sleep(PROGRESS_SECONDS + 0.3)  # it is read by then

        faults.after(same_engine, "copy", lambda *_, **__: copied.set())
        faults.before(moving, "retry_deadlock", cancel)
        moved = await move(services, acme)

        assert moved.tenant.server_name == FAR
        job = await newest_job(services)
        assert (job.state, job.error) == ("done", None)

    async def test_of_several_that_is_cancelled_reports_each_of_them(
        self, world: World, faults: Faults
    ):
        services, acme, globex = world.services, world.acme.tenant, world.globex.tenant
        reached = asyncio.Event()

        async def hang_for_globex(source: str, *_: Any, **__: Any) -> None:
            if source == url_of(services, globex):
                await asyncio.sleep(60)

        faults.before(moves, "relocate", lambda *_, **__: reached.set())
        faults.before(same_engine, "copy", hang_for_globex)
        running = asyncio.create_task(
            moving.move_all(
                system_context("test"),
                services.copying,
                [acme, globex],
                server_name=FAR,
                progress=Progress(),
            )
        )
        await reached.wait()
        running.cancel()
        first, second = await running

        assert isinstance(first, moving.Moved)
        assert isinstance(second, moving.NotMoved)
        assert isinstance(second.error, JobCancelled)
        assert (await tenants.get(services.catalog, acme.id)).server_name == FAR
        assert await tenants.get(services.catalog, globex.id) == globex

    async def test_rejects_a_second_move_of_the_same_tenant(
        self, world: World, other: Services, faults: Faults
    ):
        refused: list[Exception] = []

        async def move_again(*_: Any, **__: Any) -> None:
            with pytest.raises(TenantMoving) as found:
                await move(other, world.acme.tenant)
            refused.append(found.value)

        faults.before(same_engine, "copy", move_again, once=True)
        moved = await move(world.services, world.acme.tenant)

        assert len(refused) == 1
        assert moved.tenant.server_name == FAR

    async def test_copies_nothing_if_another_process_has_ended_its_job_before_its_write_fence(
        self, world: World, other: Services, faults: Faults
    ):
        """This process was silent for too long, and no other one knows of its fence."""
        services, acme = world.services, world.acme.tenant
        before = await databases(services)

        async def lose(*_: Any, **__: Any) -> None:
            job_id = (await newest_job(services)).id
            await job_rows.apply(
                services.catalog, job_id, RELEASED, worker_id=services.heartbeat.worker_id
            )
            await other.job_worker.reap()

        faults.before(services.databases.server(acme.server_name), "reject_writes", lose)
        with pytest.raises(moving.MoveLost):
            await move(services, acme)

        assert await databases(services) == before
        assert await tenants.get(services.catalog, acme.id) == acme
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_gives_up_if_the_tenant_was_made_writable(self, world: World, faults: Faults):
        services, acme = world.services, world.acme.tenant

        async def make_writable(*_: Any, **__: Any) -> None:
            await services.lifecycle.update(system_context("test"), acme, is_read_only=False)

        faults.after(same_engine, "copy", make_writable)
        with pytest.raises(TenantChanged):
            await move(services, acme)

        assert await tenants.get(services.catalog, acme.id) == acme

    async def test_keeps_a_tenant_read_only_if_an_admin_wants_that_too(
        self, world: World, faults: Faults
    ):
        """As for a dispute: the order was acknowledged while the move had set the mark."""
        services, acme, globex = world.services, world.acme.tenant, world.globex.tenant

        async def order(source: str, *_: Any, **__: Any) -> None:
            chosen = acme if source == url_of(services, acme) else globex
            await services.lifecycle.update(system_context("ada"), chosen, is_read_only=True)
            if chosen is globex:
                raise CopyDiffers

        faults.after(same_engine, "copy", order)
        await move(services, acme)
        with pytest.raises(CopyDiffers):
            await move(services, globex)

        moved = await tenants.get(services.catalog, acme.id)
        failed = await tenants.get(services.catalog, globex.id)
        assert (moved.server_name, moved.is_read_only) == (FAR, True)
        assert (failed.server_name, failed.is_read_only) == (globex.server_name, True)

    async def test_that_fails_because_the_tenant_was_deleted_leaves_it_writable(
        self, world: World, faults: Faults
    ):
        services, ctx = world.services, system_context("ada")
        acme = await services.lifecycle.update(ctx, world.acme.tenant, is_active=False)

        async def delete(*_: Any, **__: Any) -> None:
            await services.deletion.delete(ctx, acme, name=acme.name)

        faults.after(same_engine, "copy", delete)
        with pytest.raises(TenantChanged):
            await move(services, acme)

        deleted = await deleted_tenants.get(services.catalog, acme.id)
        restored = await services.deletion.undelete(ctx, deleted)
        assert not restored.is_read_only

    async def test_before_a_deletion_leaves_no_database(self, world: World):
        """The tenant was read before the move, and is deleted after it."""
        services, ctx = world.services, system_context("ada")
        acme = await services.lifecycle.update(ctx, world.acme.tenant, is_active=False)
        at_once = Deletion(lifecycle=services.lifecycle, kept=timedelta(0))
        moved = (await move(services, acme)).tenant

        await at_once.delete(ctx, acme, name=acme.name)

        left = await databases(services)
        assert not {acme.database_name, moved.database_name} & set(left)


class TestReplace:
    async def test_uses_the_server_that_the_tenant_is_on(self, world: World, tmp_path: Path):
        """A restore of every tenant of a server must not move them to the default one."""
        services, ctx = world.services, system_context("ada")
        moved = (await move(services, world.acme.tenant)).tenant
        target = FolderTarget(tmp_path / "archives")
        job = await creating.back_up(ctx, services.copying, moved, target, progress=Progress())
        archive = io.BytesIO(await asyncio.to_thread(Path(str(job.archive)).read_bytes))

        restored = await replacing.replace(
            ctx,
            services.copying,
            ArchiveReader(archive, services.copying.keys),
            moved,
            server_name=None,
            progress=Progress(),
        )

        assert restored.tenant.server_name == FAR


class TestRun:
    async def test_migrates_a_tenant_that_was_moved_after_it_was_claimed(
        self, gated: Settings, gate: Gate
    ):
        """The process had read its place before, and two others were in work."""
        async with open_services(gated) as services:
            made = await gates.tenants(services, 4)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gates.until_held(gated, 4)
            await gate.reached(2)

            moved = (await move(services, made[3])).tenant
            gate.open()
            run = await services.fleet.wait(run_id)

            items = await runs.ended(services.catalog, run_id)
            assert {one.error for one in items} == {None}
            assert (run.success_count, run.failed_count) == (4, 0)
            assert gates.is_migrated(services, moved)

    async def test_migrates_a_tenant_after_its_move_that_was_claimed_before(
        self, gated: Settings, gate: Gate, faults: Faults
    ):
        """It is started while it is copied, and its database rejects writes."""
        async with open_services(gated) as services:
            made = await gates.tenants(services, 4)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gates.until_held(gated, 4)

            async def start(*_: Any, **__: Any) -> None:
                gate.open()
                ended = 0
                async with asyncio.timeout(CLAIM_SECONDS_MAX):
                    while ended < 3:
                        await asyncio.sleep(0.05)
                        ended = len(await runs.ended(services.catalog, run_id))
                await asyncio.sleep(0.5)  # the fourth is started

            faults.before(same_engine, "copy", start)
            moved = (await move(services, made[3])).tenant
            run = await services.fleet.wait(run_id)

            items = await runs.ended(services.catalog, run_id)
            assert {one.error for one in items} == {None}
            assert (run.success_count, run.failed_count) == (4, 0)
            assert gates.is_migrated(services, moved)

    @on_postgresql
    async def test_finds_a_tenant_that_was_moved_while_it_was_planned(
        self, gated: Settings, gate: Gate, faults: Faults
    ):
        """The plan read the old place, and the move did not see the plan's rows."""
        planned = []
        async with open_services(gated) as services:
            made = await gates.tenants(services, 2)
            gate.build()
            gate.open()

            async def plan(*_: Any, **__: Any) -> None:
                run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
                planned.append(run_id)

            faults.after(moves, "relocate", plan)
            moved = (await move(services, made[1])).tenant
            run = await services.fleet.wait(planned[0])

            items = await runs.ended(services.catalog, run.id)
            assert {one.error for one in items} == {None}
            assert (run.success_count, run.failed_count) == (2, 0)
            assert gates.is_migrated(services, moved)

    @on_postgresql
    async def test_that_locks_a_tenant_in_the_other_order_does_not_fail_its_move(
        self, gated: Settings, gate: Gate
    ):
        """A writer of outcomes locks the tenant in the run first, and then the tenant itself."""
        async with open_services(gated) as services:
            made = await gates.tenants(services, 6)
            gate.build()
            run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada")
            await gates.until_held(gated, 6)
            some = reversed(made[2:])  # which wait for the two in work
            while not await self._is_ended_by_the_server(gated, services, chosen := next(some)):
                pass
            gate.open()
            run = await services.fleet.wait(run_id)

            moved = await tenants.get(services.catalog, chosen.id)
            assert (moved.server_name, run.success_count, run.failed_count) == (FAR, 6, 0)

    async def _is_ended_by_the_server(
        self, settings: Settings, services: Services, chosen: Tenant
    ) -> bool:
        """Move a tenant into a deadlock; return whether the server ended the move's transaction.

        It ends the one that has waited for a second in the deadlock: the other one if that began
        to wait more than a second later, on a busy machine.
        """
        with (
            raw_sql.connected(settings.catalog) as query,
            raw_sql.connected(settings.catalog) as watch,
        ):
            query("BEGIN")
            query(f"SELECT FROM tenant_migration WHERE tenant_id = '{chosen.id}' FOR UPDATE")
            moving = asyncio.create_task(move(services, chosen))
            async with asyncio.timeout(CLAIM_SECONDS_MAX):
                while not watch(REDIRECT_WAITS):  # noqa: ASYNC110 - of a server
                    await asyncio.sleep(0.02)
            update = f"UPDATE tenant SET name = name WHERE id = '{chosen.id}'"
            try:
                await asyncio.to_thread(query, update)
            except psycopg.errors.DeadlockDetected:
                query("ROLLBACK")
                return False
            else:
                query("COMMIT")
                return True
            finally:
                await moving


class TestReap:
    async def test_lets_the_tenant_of_a_dead_process_accept_writes(self, world: World):
        services, acme = world.services, world.acme.tenant
        ctx, name = system_context("test"), "tenantry_" + "e" * 32
        before = await databases(services)
        await services.databases.server(FAR).create(name)
        job = ledger.new_job(
            ctx,
            "move",
            Progress(),
            tenant=(acme.id, acme.name),
            database=(FAR, name),
            source=(acme.server_name, acme.database_name),
        )
        job = msgspec.structs.replace(job, has_made_read_only=True)
        await services.lifecycle.update(ctx, acme, is_read_only=True)
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        await services.databases.server(acme.server_name).reject_writes(acme.database_name)

        await services.job_worker.reap()

        assert await databases(services) == before
        assert await tenants.get(services.catalog, acme.id) == acme
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200
        ended = await job_rows.get(services.catalog, job.id)
        assert (ended.state, ended.error) == ("failed", INTERRUPTED)

    async def test_drops_the_old_database_if_the_process_died_after_the_cut_over(
        self, world: World, other: Services
    ):
        services, acme = world.services, world.acme.tenant
        await moving.carry(
            system_context("test"),
            services.copying,
            acme,
            server_name=FAR,
            progress=Progress(),
        )
        assert acme.database_name in await databases(services)
        job = await newest_job(services)
        assert (job.state, job.database_name) == ("dropping", acme.database_name)

        await job_rows.apply(
            services.catalog, job.id, RELEASED, worker_id=services.heartbeat.worker_id
        )
        await other.job_worker.reap()

        found = await tenants.get(services.catalog, acme.id)
        assert found.server_name == FAR
        assert not found.is_read_only
        assert acme.database_name not in await databases(services)
        assert (await newest_job(services)).state == "done"

    async def test_keeps_the_new_database_if_only_the_response_to_the_commit_is_lost(
        self, world: World, faults: Faults
    ):
        services, acme = world.services, world.acme.tenant
        before = set(await databases(services))

        def lose(_tenant_id: object) -> None:
            raise DatabaseUnavailable  # after the commit

        faults.before(services.databases, "forget", lose, once=True)
        with pytest.raises(DatabaseUnavailable):
            await move(services, acme)

        found = await tenants.get(services.catalog, acme.id)
        assert found.server_name == FAR
        after = set(await databases(services))
        assert after ^ before == {found.database_name, acme.database_name}
        assert found.database_name in after
        job = await newest_job(services)
        assert (job.state, job.error) == ("done", None)
