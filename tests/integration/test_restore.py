"""A restore in place of a tenant: what serving processes see, and what a failure leaves."""

import asyncio
import io
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.backup import creating, jobs, restoring
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.jobs import Progress
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import jobs as job_rows
from tenantry.catalog import moves, tenants
from tenantry.catalog.jobs import Job
from tenantry.catalog.tenants import Tenant
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings
from testkit import raw_sql
from tests.acceptance.support import until
from tests.conftest import World

COUNT = "SELECT count(*) FROM tenantry_post"
PUBLIC = "/api/public/blog/posts"


@pytest.fixture(name="archive")
async def _archive(world: World, tmp_path: Path) -> bytes:
    """An archive of acme, which has lost its only post since."""
    services = world.services
    target = FolderTarget(tmp_path / "archives")
    job = await creating.back_up_tenant(
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
    services: Services, tenant: Tenant, archive: bytes, *, kind: type[io.BytesIO] = io.BytesIO
) -> Any:
    reader = ArchiveReader(kind(archive), services.copying.keys)
    return await restoring.replace(
        system_context("test"),
        services.copying,
        reader,
        tenant,
        server_name=None,
        progress=Progress(),
    )


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

    async def test_ends_the_logins_of_its_users(self, world: World, archive: bytes):
        async with await world.owner(world.acme) as client:
            assert (await client.get("/api/tenant/auth/profile")).status_code == 200

            await replace(world.services, world.acme.tenant, archive)

            assert (await client.get("/api/tenant/auth/profile")).status_code == 401

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
        self, world: World, archive: bytes, monkeypatch: pytest.MonkeyPatch
    ):
        """As if this process had been silent for so long that it was declared dead."""
        tenant, services = world.acme.tenant, world.services
        before = await databases(services, tenant)
        move = moves.move

        async def taken_over(session: Any, *arguments: Any, **values: Any) -> Any:
            job = (await job_rows.page(session, Window(1, 1))).items[0]
            await job_rows.abandon(session, job.id, worker_id=services.heartbeat.worker_id)
            return await move(session, *arguments, **values)

        monkeypatch.setattr(moves, "move", taken_over)
        with pytest.raises(jobs.JobLost):
            await replace(services, tenant, archive)

        await jobs.reap(services.copying)
        found = await tenants.get(services.catalog, tenant.id)
        assert found.database_name == tenant.database_name
        assert await databases(services, tenant) == before

    async def test_keeps_the_new_database_if_only_the_response_to_its_commit_is_lost(
        self, world: World, archive: bytes, monkeypatch: pytest.MonkeyPatch
    ):
        tenant, services = world.acme.tenant, world.services

        async def lost(_tenant_id: object) -> None:
            raise DatabaseUnavailable  # after the commit

        monkeypatch.setattr(type(services.databases), "forget", lambda _self, one: lost(one))
        with pytest.raises(DatabaseUnavailable):
            await replace(services, tenant, archive)
        monkeypatch.undo()

        await jobs.reap(services.copying)
        found = await tenants.get(services.catalog, tenant.id)
        assert found.is_active
        assert raw_sql.rows(url_of(services, found), COUNT) == [(1,)]
        job = await newest_job(services)
        assert (job.state, job.database_name) == ("kept", tenant.database_name)


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
        job = jobs.new_job(
            ctx,
            "replace",
            Progress(),
            tenant=(tenant.id, tenant.name),
            database=(tenant.server_name, name),
            has_suspended=True,
        )
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        assert not suspended.is_active

        await jobs.reap(services.copying)
        # The background task of these services may have taken the job first.
        await until(
            lambda: job_rows.get(services.catalog, job.id),
            lambda found: found.finished_at is not None,
        )

        assert name not in await databases(services, tenant)
        assert (await tenants.get(services.catalog, tenant.id)).is_active
        ended = await job_rows.get(services.catalog, job.id)
        assert (ended.state, ended.error) == ("failed", job_rows.INTERRUPTED)
