"""A restore in place of a tenant: what serving processes see, and what a failure leaves."""

import asyncio
import dataclasses
import io
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from tenantry.backup import creating, loading, recovery, replacing, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import deleted_tenants, moves, runs, tenants
from tenantry.catalog import jobs as job_rows
from tenantry.catalog.job_states import INTERRUPTED, MADE_READ_ONLY, RELEASED, Job
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work import ledger
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.faults import Faults
from tests.acceptance.support import (
    CHANGE_PASSWORD,
    NEW_PASSWORD,
    PROFILE,
    done,
    ok,
    session,
    until,
)
from tests.conftest import PASSWORD, World
from tests.integration import gates
from tests.integration.gates import Gate

COUNT = "SELECT count(*) FROM tenantry_post"
PUBLIC = "/api/public/blog/posts"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
DAYS_MAX = 36_500


@pytest.fixture(name="archive")
async def _archive(world: World, tmp_path: Path) -> bytes:
    """An archive of acme, which has lost its only post since."""
    services = world.services
    target = FolderTarget(tmp_path / "archives")
    job = await creating.back_up(
        system_context("test"), services.copying, world.acme.tenant, target, progress=Progress()
    )
    raw_sql.run(url_of(services, world.acme.tenant), "DELETE FROM tenantry_post")
    return await asyncio.to_thread(Path(str(job.archive)).read_bytes)


@pytest.fixture(name="other")
async def _other(world: World, settings: Settings) -> AsyncIterator[Services]:
    """Another process of the same service."""
    del world
    async with open_services(settings, works=False) as services:
        yield services


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


class SlowFile(io.BytesIO):
    """A file of which each part takes a moment."""

    def read(self, size: int | None = -1) -> bytes:
        time.sleep(0.1)
        return super().read(size)


async def replace(
    services: Services,
    tenant: Tenant,
    archive: bytes,
    *,
    kind: type[io.BytesIO] = io.BytesIO,
    now: datetime | None = None,
) -> Any:
    reader = ArchiveReader(kind(archive), services.copying.keys)
    ctx = system_context("test")
    return await replacing.replace(
        ctx if now is None else msgspec.structs.replace(ctx, now=now),
        services.copying,
        reader,
        tenant,
        server_name=None,
        progress=Progress(),
    )


async def restore_back(services: Services, archive: bytes) -> restoring.Restored:
    reader = ArchiveReader(io.BytesIO(archive), services.copying.keys)
    return await restoring.restore(
        system_context("test"),
        services.copying,
        reader,
        name=None,
        server_name=None,
        progress=Progress(),
    )


async def away(*_arguments: object, **_options: object) -> None:
    raise DatabaseUnavailable


async def newest_job(services: Services) -> Job:
    return (await job_rows.page(services.catalog, Window(1, 1))).items[0]


async def wait_for_job(services: Services, kind: str) -> None:
    for _ in range(2000):
        if (await newest_job(services)).kind == kind:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def databases(services: Services, tenant: Tenant) -> set[str]:
    names = await services.databases.server(tenant.server_name).names("tenantry_")
    return {name for name in names if "template" not in name}


class TestReplace:
    async def test_is_seen_by_a_process_that_serves_the_tenant(self, world: World, archive: bytes):
        async with world.public(world.acme) as client:
            assert (await client.get(PUBLIC)).json()["data"]["items"] == []

            await replace(world.services, world.acme.tenant, archive)

            assert (await client.get(PUBLIC)).json()["data"]["items"]

    async def test_is_seen_by_every_other_process(
        self, world: World, archive: bytes, other: Services
    ):
        before = await other.databases.open(world.acme.tenant, writes=False)

        await replace(world.services, world.acme.tenant, archive)

        tenant = await tenants.get(other.catalog, world.acme.tenant.id)
        after = await other.databases.open(tenant, writes=False)
        assert after is not before
        assert raw_sql.rows(url_of(other, tenant), COUNT) == [(1,)]

    async def test_dates_each_entry_of_the_audit_log_when_it_is_made(
        self, world: World, archive: bytes
    ):
        """A restore takes minutes; entries of one time would be in any order."""
        began = utc_now()
        tenant = world.acme.tenant
        await replace(world.services, tenant, archive, now=began - timedelta(hours=1))

        async with await world.admin() as admin:
            page = ok(await admin.get("/api/admin/audit-log", params={"target": str(tenant.id)}))
        replaced, suspended = page["items"][:2]
        assert (replaced["action"], suspended["action"]) == ("tenant.replace", "tenant.update")
        assert began < datetime.fromisoformat(suspended["at"])
        assert suspended["at"] < replaced["at"]

    async def test_ends_the_logins_of_its_users(self, world: World, archive: bytes):
        async with await world.owner(world.acme) as client:
            assert (await client.get("/api/tenant/auth/profile")).status_code == 200

            await replace(world.services, world.acme.tenant, archive)

            assert (await client.get("/api/tenant/auth/profile")).status_code == 401

    async def test_ends_what_began_since_another_restore_in_the_same_second(
        self, world: World, archive: bytes
    ):
        services, now = world.services, utc_now()
        restored = await replace(services, world.acme.tenant, archive, now=now)
        acme = dataclasses.replace(world.acme, tenant=restored.tenant)
        token = await world.mcp_token(acme)
        async with await session(world, acme) as login, world.client(x_mcp_token=token) as bound:
            ok(await login.get(PROFILE))
            ok(await bound.get(PROFILE))

            await replace(services, restored.tenant, archive, now=now)

            assert (await login.get(PROFILE)).status_code == 401
            assert (await bound.get(PROFILE)).status_code == 401

    async def test_revives_no_session_that_a_password_change_has_ended(
        self, world: World, archive: bytes
    ):
        """The changes since the first restore are more than the seconds since then."""
        services, now = world.services, utc_now()
        restored = await replace(services, world.acme.tenant, archive, now=now)
        acme = dataclasses.replace(world.acme, tenant=restored.tenant)
        first, second = (
            {"currentPassword": old, "newPassword": new}
            for old, new in ((PASSWORD, NEW_PASSWORD), (NEW_PASSWORD, PASSWORD))
        )
        async with await session(world, acme) as login:
            done(await login.put(CHANGE_PASSWORD, json=first))
            async with await session(world, acme, NEW_PASSWORD) as ended:
                done(await login.put(CHANGE_PASSWORD, json=second))
                assert (await ended.get(PROFILE)).status_code == 401

                await replace(services, restored.tenant, archive, now=now + timedelta(seconds=1))

                assert (await ended.get(PROFILE)).status_code == 401
            assert (await login.get(PROFILE)).status_code == 401

    @pytest.mark.slow
    async def test_leaves_the_tenant_as_it_was_when_it_is_cancelled(
        self, world: World, archive: bytes
    ):
        tenant, services = world.acme.tenant, world.services
        before = await databases(services, tenant)
        running = asyncio.create_task(replace(services, tenant, archive, kind=SlowFile))
        await wait_for_job(services, "replace")

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await tenants.get(services.catalog, tenant.id) == tenant
        assert await databases(services, tenant) == before
        assert (await newest_job(services)).state == "failed"

    async def test_changes_nothing_if_another_process_has_taken_the_job_over(
        self, world: World, archive: bytes, faults: Faults
    ):
        """As if this process had been silent for so long that it was declared dead."""
        tenant, services = world.acme.tenant, world.services
        before = await databases(services, tenant)

        async def take_over(session: Any, *_: Any, **__: Any) -> None:
            job = (await job_rows.page(session, Window(1, 1))).items[0]
            await job_rows.apply(session, job.id, RELEASED, worker_id=services.heartbeat.worker_id)

        faults.before(moves, "move", take_over)
        with pytest.raises(ledger.JobLost):
            await replace(services, tenant, archive)

        await services.job_worker.reap()
        found = await tenants.get(services.catalog, tenant.id)
        assert found.database_name == tenant.database_name
        assert await databases(services, tenant) == before

    async def test_leaves_a_tenant_suspended_if_an_admin_wants_that_too(
        self, world: World, archive: bytes, faults: Faults
    ):
        """The order was acknowledged while the restore had suspended the tenant."""
        tenant, services = world.acme.tenant, world.services

        async def suspend(*_: Any, **__: Any) -> None:
            await services.lifecycle.update(system_context("ada"), tenant, is_active=False)

        faults.after(loading, "fill", suspend)
        restored = await replace(services, tenant, archive)

        assert restored.tenant.database_name != tenant.database_name
        assert not (await tenants.get(services.catalog, tenant.id)).is_active

    async def test_of_a_tenant_that_an_admin_has_suspended_since_it_was_read_changes_nothing(
        self, world: World, archive: bytes
    ):
        """Such as the last of many tenants, hours after they were listed."""
        tenant, services = world.acme.tenant, world.services
        before = await databases(services, tenant)
        suspended = await services.lifecycle.update(system_context("ada"), tenant, is_active=False)

        with pytest.raises(replacing.TenantChanged):
            await replace(services, tenant, archive)

        assert await tenants.get(services.catalog, tenant.id) == suspended
        assert await databases(services, tenant) == before
        assert (await newest_job(services)).state == "failed"

    @pytest.mark.slow
    async def test_leaves_the_old_database_as_it_is_for_the_runs_that_have_planned_it(
        self, gated: Settings, gate: Gate, tmp_path: Path
    ):
        """They migrate the new one, and the old one is kept as it was."""
        async with open_services(gated, works=False) as services:
            [old] = await gates.tenants(services, 1)
            ctx, target = system_context("ada"), FolderTarget(tmp_path / "archives")
            job = await creating.back_up(ctx, services.copying, old, target, progress=Progress())
            gate.build()
            gate.open()
            run_id = await services.fleet.plan(ctx, triggered_by="ada")
            archive = await asyncio.to_thread(Path(str(job.archive)).read_bytes)
            await replace(services, old, archive)

            async with open_services(gated) as worker:
                run = await worker.fleet.wait(run_id)

            new = await tenants.get(services.catalog, old.id)
            assert (run.success_count, run.failed_count) == (1, 0)
            assert [gates.is_migrated(services, one) for one in (old, new)] == [False, True]

    async def test_keeps_the_new_database_if_only_the_response_to_its_commit_is_lost(
        self, world: World, archive: bytes, faults: Faults
    ):
        tenant, services = world.acme.tenant, world.services

        def lose(_tenant_id: object) -> None:
            raise DatabaseUnavailable  # after the commit

        faults.before(services.databases, "forget", lose, once=True)
        with pytest.raises(DatabaseUnavailable):
            await replace(services, tenant, archive)

        await services.job_worker.reap()
        found = await tenants.get(services.catalog, tenant.id)
        assert found.is_active
        assert raw_sql.rows(url_of(services, found), COUNT) == [(1,)]
        job = await newest_job(services)
        assert (job.state, job.database_name) == ("kept", tenant.database_name)


class TestRestoreBack:
    @pytest.mark.parametrize("catalog_is_away", [False, True])
    async def test_does_not_end_another_restore_of_the_same_tenant(
        self,
        world: World,
        archive: bytes,
        tmp_path: Path,
        faults: Faults,
        *,
        catalog_is_away: bool,
    ):
        """In the same process, and from an archive with another name of the tenant."""
        services, ctx, acme = world.services, system_context("test"), world.acme.tenant
        renamed = await services.lifecycle.update(ctx, acme, name="renamed", is_active=False)
        target = FolderTarget(tmp_path / "archives")
        job = await creating.back_up(ctx, services.copying, renamed, target, progress=Progress())
        newer = await asyncio.to_thread(Path(str(job.archive)).read_bytes)
        await services.deletion.delete(ctx, renamed, name="renamed")
        deleted = await deleted_tenants.get(services.catalog, acme.id)
        await services.deletion.purge(ctx, deleted, name="renamed")
        is_filled, may_end = asyncio.Event(), asyncio.Event()

        async def wait(*_: Any, **__: Any) -> None:
            is_filled.set()
            await may_end.wait()

        faults.after(loading, "fill", wait)
        first = asyncio.create_task(restore_back(services, archive))
        await is_filled.wait()

        if catalog_is_away:
            faults.before(tenants, "add", away)
        with pytest.raises(DatabaseUnavailable if catalog_is_away else tenants.TenantIdInUse):
            await restore_back(services, newer)
        may_end.set()

        restored = (await first).tenant
        assert raw_sql.rows(url_of(services, restored), COUNT) == [(1,)]
        assert await tenants.get(services.catalog, acme.id) == restored


class TestPurge:
    async def test_of_the_tenant_drops_the_old_database_too(self, world: World, archive: bytes):
        """A purge removes every database of the tenant."""
        services, ctx = world.services, system_context("test")
        acme = world.acme.tenant
        await replace(services, acme, archive)
        kept = await newest_job(services)
        tenant = await tenants.get(services.catalog, acme.id)
        tenant = await services.lifecycle.update(ctx, tenant, is_active=False)
        await services.deletion.delete(ctx, tenant, name="acme")
        before = await databases(services, tenant)

        deleted = await deleted_tenants.get(services.catalog, acme.id)
        await services.deletion.purge(ctx, deleted, name="acme")
        await services.job_worker.reap()
        ended = await until(
            lambda: job_rows.get(services.catalog, kept.id),
            lambda found: found.state == "done",
        )

        assert {acme.database_name, tenant.database_name} <= before
        after = await databases(services, tenant)
        assert not {acme.database_name, tenant.database_name} & after
        assert (ended.state, ended.error) == ("done", None)


class TestReap:
    async def test_drops_the_database_of_a_dead_process_and_activates_the_tenant(
        self, world: World
    ):
        services, tenant = world.services, world.acme.tenant
        ctx = system_context("test")
        name = "tenantry_" + "e" * 32
        server = services.databases.server(tenant.server_name)
        await server.create(name)
        suspended = await services.lifecycle.update(ctx, tenant, is_active=False)
        job = ledger.new_job(
            ctx,
            "replace",
            Progress(),
            tenant=(tenant.id, tenant.name),
            database=(tenant.server_name, name),
        )
        job = msgspec.structs.replace(job, has_suspended=True)
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        assert not suspended.is_active

        await services.job_worker.reap()
        # The background task of these services may have taken the job first.
        await until(
            lambda: job_rows.get(services.catalog, job.id),
            lambda found: found.finished_at is not None,
        )

        assert name not in await databases(services, tenant)
        assert (await tenants.get(services.catalog, tenant.id)).is_active
        ended = await job_rows.get(services.catalog, job.id)
        assert (ended.state, ended.error) == ("failed", INTERRUPTED)

    @pytest.fixture
    async def lost(self, world: World) -> Job:
        """A restore in place whose process died after it had suspended the tenant."""
        services, tenant = world.services, world.acme.tenant
        ctx = system_context("test")
        await services.lifecycle.update(ctx, tenant, is_active=False)
        job = ledger.new_job(ctx, "replace", Progress(), tenant=(tenant.id, tenant.name))
        job = msgspec.structs.replace(job, has_suspended=True, server_name=tenant.server_name)
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        return job

    async def test_leaves_a_tenant_suspended_if_an_admin_wants_that_in_the_meantime(
        self, world: World, lost: Job, faults: Faults
    ):
        """Bringing a tenant to the head can take minutes, and an order counts from its answer."""
        services, tenant = world.services, world.acme.tenant

        async def suspend(lifecycle: Lifecycle, one: Tenant) -> None:
            await lifecycle.update(system_context("ada"), one, is_active=False)

        faults.after(Lifecycle, "bring_to_head", suspend)
        ended = await self.reaped(services, lost)

        assert (ended.state, ended.has_suspended) == ("failed", False)
        assert not (await tenants.get(services.catalog, tenant.id)).is_active

    async def test_activates_a_tenant_when_its_server_is_back(
        self, world: World, lost: Job, faults: Faults
    ):
        services, tenant = world.services, world.acme.tenant
        attempts = 0

        def fail_once(*_: Any) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise DatabaseUnavailable

        faults.before(Lifecycle, "bring_to_head", fail_once)
        ended = await self.reaped(services, lost)

        assert (attempts, ended.state) == (2, "failed")
        assert (await tenants.get(services.catalog, tenant.id)).is_active

    async def reaped(self, services: Services, lost: Job) -> Job:
        """Return a job after its cleanup, by this process or by the services' own."""

        async def found() -> Job:
            await services.job_worker.reap()
            return await job_rows.get(services.catalog, lost.id)

        return await until(found, lambda one: one.finished_at is not None)


@pytest.mark.slow
class TestEveryTenant:
    async def test_misses_none_when_an_earlier_one_is_deleted_at_the_same_time(
        self, services: Services, faults: Faults
    ):
        first, *others = await gates.tenants(services, 5)
        ctx = system_context("ada")
        await services.lifecycle.update(ctx, first, is_active=False)

        async def delete(*_: Any, **__: Any) -> None:
            await services.deletion.delete(ctx, first, name=first.name)

        faults.after(tenants, "after", delete, once=True)
        found = await recovery.every_tenant(services.copying, page_size=2)

        assert [one.id for one in found] == [first.id, *(one.id for one in others)]
        assert await tenants.find(services.catalog, first.id) is None


class TestRestoreCatalog:
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings) -> Settings:
        """The services of the tests purge nothing: only the restored catalog is asked to."""
        return settings.model_copy(update={"deleted_days": DAYS_MAX})

    async def test_drops_no_database_that_can_be_a_tenants_by_now(
        self, world: World, settings: Settings, new_database: Callable[[], str], tmp_path: Path
    ):
        """Not of tenants that were being created or removed, and not of one that was deleted."""
        services, ctx = world.services, system_context("test")
        server = services.databases.server(world.acme.tenant.server_name)
        names = set()
        for number, state in enumerate(TenantState):
            template = world.acme.tenant
            one = msgspec.structs.replace(
                template,
                id=new_id(),
                name=state.value,
                state=state.value,
                database_name=f"tenantry_{number:032x}",
                is_active=False,
                deleted_at=LONG_AGO if state is TenantState.DELETED else None,
            )
            await server.create(one.database_name)
            held_by = services.heartbeat.worker_id
            await tenants.add(services.catalog, one, worker_id=held_by)
            names.add(one.database_name)

        elsewhere = await recovered(services, settings, new_database, tmp_path)
        elsewhere = elsewhere.model_copy(update={"deleted_days": 7})
        url = elsewhere.catalog
        async with open_services(elsewhere, works=False) as restored:
            await restored.job_worker.reap()
            await restored.deletion.purge_expired(ctx)

        assert names <= await databases(services, world.acme.tenant)
        listed = dict(raw_sql.rows(url, "SELECT name, state FROM tenant"))
        assert listed == {
            "acme": "ready",
            "globex": "ready",
            "ready": "ready",
            "deleted": "deleted",
        }

    async def test_undoes_what_an_unfinished_move_had_done_and_keeps_its_copy(
        self, world: World, settings: Settings, new_database: Callable[[], str], tmp_path: Path
    ):
        """The move may have ended since, and the copy be the database of the tenant."""
        services, ctx, tenant = world.services, system_context("test"), world.acme.tenant
        server, copy = services.databases.server(tenant.server_name), f"tenantry_{new_id().hex}"
        await server.create(copy)
        source = (tenant.server_name, tenant.database_name)
        job = ledger.new_job(
            ctx,
            "move",
            Progress(),
            tenant=(tenant.id, tenant.name),
            database=(tenant.server_name, copy),
            source=source,
        )
        worker_id = services.heartbeat.worker_id
        services.copying.ledger.busy.add(job.id)  # or its own housekeeping cleans it up
        await job_rows.add(services.catalog, job, worker_id=worker_id)
        async with services.catalog.change(ctx, "tenant.update", tenant.id) as session:
            await job_rows.apply(session, job.id, MADE_READ_ONLY, worker_id=worker_id)
            assert await moves.freeze(session, tenant) is not None
        await server.reject_writes(tenant.database_name)

        elsewhere = await recovered(services, settings, new_database, tmp_path)
        async with open_services(elsewhere, works=False) as restored:
            await restored.job_worker.reap()
            now = await tenants.get(restored.catalog, tenant.id)
            ended = await job_rows.get(restored.catalog, job.id)

        assert not now.is_read_only
        raw_sql.run(url_of(services, tenant), "DELETE FROM tenantry_post")  # is not rejected
        assert ended.state == "failed"
        assert copy in await databases(services, tenant)

    @pytest.mark.slow
    async def test_ends_migration_runs_that_may_have_been_cancelled_since(
        self, gated: Settings, gate: Gate, new_database: Callable[[], str], tmp_path: Path
    ):
        ctx = system_context("ada")
        async with open_services(gated, works=False) as services:
            made = await gates.tenants(services, 3)
            gate.build()
            gate.open()
            run_id = await services.fleet.plan(
                ctx, triggered_by="ada", options=RunOptions(waves=[1, "100%"])
            )
            elsewhere = await recovered(services, gated, new_database, tmp_path)
            await services.fleet.cancel(ctx, run_id)

        async with open_services(elsewhere) as restored:
            run = await restored.fleet.wait(run_id)
            ended = await runs.ended(restored.catalog, run_id)
            migrated = [gates.is_migrated(restored, one) for one in made]

        reason = "not attempted: the catalog was restored"
        assert (run.state, run.stop_reason, run.not_attempted_count) == ("stopped", reason, 3)
        assert {one.error for one in ended} == {reason}
        assert migrated == [False] * 3


async def recovered(
    services: Services, settings: Settings, new_database: Callable[[], str], tmp_path: Path
) -> Settings:
    """Back up the catalog, restore it elsewhere, and return the settings with it."""
    ctx, copying = system_context("test"), services.copying
    target = FolderTarget(tmp_path / "archives")
    job = await creating.back_up(ctx, copying, None, target, progress=Progress())
    archive = await asyncio.to_thread(Path(str(job.archive)).read_bytes)
    is_file = sqlite_path(settings.catalog) is not None
    url = f"sqlite:///{tmp_path / 'restored.db'}" if is_file else new_database()
    reader = ArchiveReader(io.BytesIO(archive), copying.keys)
    await recovery.restore_catalog(ctx, url, reader, tools=copying.tools)
    return settings.model_copy(update={"catalog_url": SecretStr(url)})
