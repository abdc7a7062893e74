"""A move of a tenant: what serving processes see, and what a failure leaves."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.backup import jobs, moving, same_engine
from tenantry.backup.dumps import CopyDiffers
from tenantry.backup.jobs import Progress
from tenantry.backup.restoring import TenantChanged
from tenantry.catalog import jobs as job_rows
from tenantry.catalog import tenants
from tenantry.catalog.jobs import Job, TenantMoving
from tenantry.catalog.tenants import Tenant
from tenantry.catalog.workers import NO_WORKER
from tenantry.db import write_fence
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.db.urls import sqlite_path
from tenantry.db.write_fence import DatabaseBusy
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings
from tenantry.tenant.tables import user
from testkit import raw_sql
from tests.conftest import World

FAR = "far"
PROFILE = "/api/tenant/auth/profile"
PUBLIC = "/api/public/blog/posts"
CHANGED = {"email": "owner@acme.example.com", "fullName": "Renamed"}
WRITE = Statement[Any](sa.update(user).values(full_name="stale"))


@pytest.fixture(name="settings")
def _settings(settings: Settings) -> Settings:
    """With a second tenant server: another folder, or the same server under another name."""
    url = settings.tenant_server
    far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / 'far'}"
    servers = {**settings.tenant_servers, FAR: {"url": far}}
    return Settings(**{**settings.model_dump(exclude_unset=True), "tenant_servers": servers})


@pytest.fixture(name="other")
async def _other(world: World, settings: Settings) -> AsyncIterator[Services]:
    """Another process of the same service."""
    del world
    async with open_services(settings, works=False) as services:
        yield services


async def move(services: Services, tenant: Tenant) -> moving.Moved:
    return await moving.move(
        system_context("test"), services.copying, tenant, server_name=FAR, progress=Progress()
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
        self, world: World, other: Services, monkeypatch: pytest.MonkeyPatch
    ):
        """As if the other process had not read the epoch yet, and had an open connection."""
        acme = world.acme.tenant
        stale = await other.databases.open(acme, writes=True)
        url = url_of(other, acme)
        copy = same_engine.copy
        caught: list[Exception] = []

        async def and_write(*arguments: Any, **options: Any) -> None:
            await copy(*arguments, **options)
            for _ in range(2):  # with the connection that it has, and with a new one
                with pytest.raises(DatabaseUnavailable) as found:
                    await stale.execute(WRITE)
                caught.append(found.value)

        monkeypatch.setattr(same_engine, "copy", and_write)
        moved = await move(world.services, acme)

        assert len(caught) == 2
        sql = "SELECT count(*) FROM tenantry_user WHERE full_name = 'stale'"
        assert raw_sql.rows(url_of(other, moved.tenant), sql) == [(0,)]
        assert url_of(other, moved.tenant) != url

    async def test_answers_reads_while_it_copies(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        copy = same_engine.copy
        during: list[int] = []
        async with world.public(world.acme) as reader, await world.owner(world.acme) as writer:

            async def and_read(*arguments: Any, **options: Any) -> None:
                await copy(*arguments, **options)
                during.append((await reader.get(PUBLIC)).status_code)
                during.append((await writer.put(PROFILE, json=CHANGED)).status_code)

            monkeypatch.setattr(same_engine, "copy", and_read)
            await move(world.services, world.acme.tenant)

        assert during == [200, 403]

    async def test_waits_for_a_transaction_and_gives_up_when_it_does_not_end(
        self, world: World, other: Services, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(write_fence, "WAIT_SECONDS_MAX", 0.5)
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        database = await other.databases.open(acme, writes=True)
        async with database.begin() as session:
            await session.execute(WRITE)

            with pytest.raises(DatabaseBusy):
                await move(services, acme)

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_changes_nothing_if_the_copy_differs(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        dumped = same_engine.dumps.copy

        async def and_damage(source: str, target: str, *arguments: Any, **options: Any) -> Any:
            contents = await dumped(source, target, *arguments, **options)
            raw_sql.run(target, "UPDATE tenantry_user SET full_name = 'damaged'")
            return contents

        monkeypatch.setattr(same_engine.dumps, "copy", and_damage)
        with pytest.raises(CopyDiffers, match="tenantry_user"):
            await move(services, acme)

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        assert (await newest_job(services)).state == "failed"
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_leaves_the_tenant_where_it_was_when_it_is_cancelled(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        reached = asyncio.Event()

        async def forever(*_arguments: Any, **_options: Any) -> None:
            reached.set()
            await asyncio.sleep(60)

        monkeypatch.setattr(same_engine, "copy", forever)
        running = asyncio.create_task(move(services, acme))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await tenants.get(services.catalog, acme.id) == acme
        assert await databases(services) == before
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200

    async def test_rejects_a_second_move_of_the_same_tenant(
        self, world: World, other: Services, monkeypatch: pytest.MonkeyPatch
    ):
        copy = same_engine.copy

        async def and_move(*arguments: Any, **options: Any) -> None:
            monkeypatch.setattr(same_engine, "copy", copy)
            with pytest.raises(TenantMoving):
                await move(other, world.acme.tenant)
            await copy(*arguments, **options)

        monkeypatch.setattr(same_engine, "copy", and_move)
        moved = await move(world.services, world.acme.tenant)

        assert moved.tenant.server_name == FAR

    async def test_gives_up_if_the_tenant_was_made_writable(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        services, acme = world.services, world.acme.tenant
        copy = same_engine.copy

        async def and_activate(*arguments: Any, **options: Any) -> None:
            await copy(*arguments, **options)
            await jobs.set_read_only(
                system_context("test"), services.copying, acme, is_read_only=False
            )

        monkeypatch.setattr(same_engine, "copy", and_activate)
        with pytest.raises(TenantChanged):
            await move(services, acme)

        assert await tenants.get(services.catalog, acme.id) == acme


class TestReap:
    async def test_lets_the_tenant_of_a_dead_process_accept_writes(self, world: World):
        services, acme = world.services, world.acme.tenant
        ctx, name = system_context("test"), "tenantry_" + "e" * 32
        before = await databases(services)
        await services.databases.server(FAR).create(name)
        job = jobs.new_job(
            ctx,
            "move",
            Progress(),
            tenant=(acme.id, acme.name),
            database=(FAR, name),
            source=(acme.server_name, acme.database_name),
            has_made_read_only=True,
        )
        await job_rows.add(services.catalog, job, worker_id=NO_WORKER)
        await jobs.set_read_only(ctx, services.copying, acme, is_read_only=True)
        await services.databases.server(acme.server_name).reject_writes(acme.database_name)

        await jobs.reap(services.copying)

        assert await databases(services) == before
        assert await tenants.get(services.catalog, acme.id) == acme
        async with await world.owner(world.acme) as client:
            assert (await client.put(PROFILE, json=CHANGED)).status_code == 200
        ended = await job_rows.get(services.catalog, job.id)
        assert (ended.state, ended.error) == ("failed", job_rows.INTERRUPTED)

    async def test_drops_the_old_database_if_the_process_died_after_the_cut_over(
        self, world: World, other: Services, monkeypatch: pytest.MonkeyPatch
    ):
        del other

        async def die(*_arguments: Any) -> None:
            raise asyncio.CancelledError

        services, acme = world.services, world.acme.tenant
        monkeypatch.setattr(moving, "drop_when_known", die)
        with pytest.raises(asyncio.CancelledError):
            await move(services, acme)
        assert acme.database_name in await databases(services)
        job = await newest_job(services)
        assert (job.state, job.database_name) == ("dropping", acme.database_name)

        await job_rows.abandon(services.catalog, job.id, worker_id=services.heartbeat.worker_id)
        await jobs.reap(services.copying)

        found = await tenants.get(services.catalog, acme.id)
        assert found.server_name == FAR
        assert not found.is_read_only
        assert acme.database_name not in await databases(services)
        assert (await newest_job(services)).state == "done"

    async def test_keeps_the_new_database_if_only_the_response_to_the_commit_is_lost(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        services, acme = world.services, world.acme.tenant
        before = set(await databases(services))

        async def lost(_self: object, _tenant_id: object) -> None:
            raise DatabaseUnavailable  # after the commit

        monkeypatch.setattr(type(services.databases), "forget", lost)
        with pytest.raises(DatabaseUnavailable):
            await move(services, acme)
        monkeypatch.undo()

        found = await tenants.get(services.catalog, acme.id)
        assert found.server_name == FAR
        after = set(await databases(services))
        assert after ^ before == {found.database_name, acme.database_name}
        assert found.database_name in after
        job = await newest_job(services)
        assert (job.state, job.error) == ("done", None)
