"""A move to a tenant server that goes away: the tenant is not affected."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from tenantry.backup import online
from tenantry.backup.online import PauseTooLong, Way
from tenantry.catalog import jobs as job_rows
from tenantry.catalog import tenants
from tenantry.catalog.tenants import Tenant
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.postgres_server import PostgresServer
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.context import system_context
from tenantry.kit.errors import TenantryError
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work import ledger
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.faults import Faults
from testkit.postgres import Server, find_binaries
from tests.acceptance.support import Raw, lost
from tests.black_hole import black_hole
from tests.conftest import SECRET_KEY, provision
from tests.integration.online import (
    FAR,
    NEAR,
    WRITTEN,
    is_writable,
    left_over,
    move,
    newest_job,
    two_servers,
    url_of,
)
from tests.integration.test_runs import SILENCE_MS, set_back

pytestmark = pytest.mark.slow

# Of a silent server: the connection times out several times during the cleanup.
CLEANUP_SECONDS_MAX = 60.0


@pytest.fixture(name="servers", scope="module")
def _servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as servers:
        yield servers


def _settings(near: str, far: str, folder: Path) -> Settings:
    return Settings(
        data_dir=folder,
        host="tenantry.test",
        tenant_server_url=near,
        tenant_servers={FAR: {"url": far}},
        secret_key=SECRET_KEY,
        connect_timeout_s=1,
        pg_tools=find_binaries(),
    )


@pytest.fixture(name="services")
async def _services(servers: tuple[Server, Server], tmp_path: Path) -> AsyncIterator[Services]:
    settings = _settings(servers[0].url, servers[1].url, tmp_path / "data")
    async with open_services(settings, works=False) as services:
        yield services
        for name in services.databases.server_names:
            server = services.databases.server(name)
            for one in await server.names("tenantry_"):
                await server.drop(one)


async def _new_shop(services: Services) -> Tenant:
    shop = (await provision(services, "Shop")).tenant
    raw_sql.run(url_of(services, shop), WRITTEN)
    return shop


async def _leave_jobs(services: Services, shop: Tenant) -> None:
    """Add jobs of a dead process: restores to the far server, and a move of *shop*."""
    ctx = system_context("test")
    new = partial(ledger.new_job, ctx, tenant=(shop.id, shop.name))
    for number in range(3):
        restore = new("replace", Progress(), database=(FAR, f"tenantry_{number:032x}"))
        await job_rows.add(services.catalog, restore, worker_id=NO_WORKER)
    source = (NEAR, shop.database_name)
    move_ = new("move", Progress(), database=(FAR, f"tenantry_{9:032x}"), source=source)
    await services.lifecycle.update(ctx, shop, is_read_only=True)
    move_ = msgspec.structs.replace(move_, has_made_read_only=True)
    await job_rows.add(services.catalog, move_, worker_id=NO_WORKER)
    await services.databases.server(NEAR).reject_writes(shop.database_name)


class TestOutage:
    async def test_of_the_new_server_does_not_keep_the_tenant_read_only(
        self, services: Services, servers: tuple[Server, Server]
    ):
        shop = await _new_shop(services)
        failing = await self._move_with_an_outage(services, servers[1], shop)
        try:
            with pytest.raises(TenantryError):
                await failing

            assert (await newest_job(services)).state == "dropping"
            assert await is_writable(services, shop)
        finally:
            servers[1].start()
        await services.job_worker.reap()
        assert (await newest_job(services)).state == "failed"
        assert await left_over(services) == []

    async def test_does_not_undo_what_an_admin_changes_before_the_cleanup(
        self, services: Services, servers: tuple[Server, Server]
    ):
        shop = await _new_shop(services)
        failing = await self._move_with_an_outage(services, servers[1], shop)
        try:
            with pytest.raises(TenantryError):
                await failing
            await services.lifecycle.update(system_context("test"), shop, is_read_only=True)
        finally:
            servers[1].start()
        await services.job_worker.reap()

        assert (await newest_job(services)).state == "failed"
        assert (await tenants.get(services.catalog, shop.id)).is_read_only

    async def test_does_not_delay_the_cleanup_of_jobs_on_other_servers(
        self,
        services: Services,
        servers: tuple[Server, Server],
        faults: Faults,
    ):
        """One connection to it is tried: each can wait until it times out."""
        shop = await _new_shop(services)
        await _leave_jobs(services, shop)
        called: list[tuple[str, str]] = []
        near = services.databases.server(NEAR)

        def note(name: str, server: PostgresServer, *_: Any) -> None:
            called.append((name, NEAR if server is near else FAR))

        for name in ("accept_writes", "drop"):
            faults.before(PostgresServer, name, partial(note, name))
        servers[1].stop("immediate")
        try:
            await services.job_worker.reap()
            assert called == [("accept_writes", NEAR), ("drop", FAR)]
            assert await is_writable(services, shop)
        finally:
            servers[1].start()
        await services.job_worker.reap()
        listed = await job_rows.page(services.catalog, Window(1, 9))
        assert {one.state for one in listed.items} == {"failed"}

    async def test_at_the_end_of_an_online_move_ends_the_pause(
        self, servers: tuple[Server, Server], tmp_path: Path, faults: Faults
    ):
        """The new server accepts bytes, and answers nothing: no error ends the wait for it."""
        async with (
            black_hole(servers[1].url) as far,
            open_services(
                _settings(servers[0].url, far.url, tmp_path / "data"), works=False
            ) as services,
        ):
            shop = await _new_shop(services)

            def fall_silent(copy: online.Following) -> None:
                raw_sql.run(copy.source, "SET default_transaction_read_only = off", _ADDED)
                far.fall_silent()

            faults.before(online.Following, "finish", fall_silent)
            limits = online.MoveLimits(finish_seconds=1.0)
            running = asyncio.create_task(move(services, shop, limits=limits))
            done, _ = await asyncio.wait({running}, timeout=CLEANUP_SECONDS_MAX)
            far.come_back()
            with pytest.raises(PauseTooLong):
                await running
            assert done
            assert await is_writable(services, shop)
            await services.job_worker.reap()
            assert (await newest_job(services)).state == "failed"
            await services.databases.server(NEAR).drop(shop.database_name)

    async def _move_with_an_outage(
        self, services: Services, far: Server, shop: Tenant
    ) -> "asyncio.Task[Any]":
        """Begin a move; when the tenant is read-only, stop the new server."""
        url = url_of(services, shop)
        with psycopg.connect(url) as raw:
            raw.execute("INSERT INTO written VALUES (1000)")  # the fence waits for it
            running = asyncio.create_task(move(services, shop, way=Way.OFFLINE))
            while not (await tenants.get(services.catalog, shop.id)).is_read_only:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            far.stop("immediate")
        return running


class TestLoss:
    async def test_of_a_move_before_its_write_fence_leaves_the_tenant_writable(
        self, services: Services, faults: Faults
    ):
        shop = await _new_shop(services)
        self._lose_before_the_fence(services, faults)
        with pytest.raises(TenantryError):
            await move(services, shop, way=Way.OFFLINE)

        assert await is_writable(services, shop)
        assert await left_over(services) == []
        listed = await job_rows.page(services.catalog, Window(1, 9), is_finished=True)
        assert [one.state for one in listed.items] == ["failed", "failed"]

    async def test_of_a_move_and_then_of_the_catalog_leaves_the_tenant_writable(
        self, services: Services, faults: Faults
    ):
        """No other process knows that this one has set a write fence."""
        shop = await _new_shop(services)
        self._lose_before_the_fence(services, faults)
        near = services.databases.server(NEAR)
        with contextlib.ExitStack() as outage:

            def lose_the_catalog(*_: Any, **__: Any) -> None:
                outage.enter_context(lost(Raw(services.settings.catalog)))

            faults.after(near, "reject_writes", lose_the_catalog, once=True)
            with pytest.raises(DatabaseUnavailable):
                await move(services, shop, way=Way.OFFLINE)

        await services.job_worker.reap()
        assert await is_writable(services, shop)
        assert await left_over(services) == []

    def _lose_before_the_fence(self, services: Services, faults: Faults) -> None:
        """As if this process had been silent for so long that another one has ended its job."""

        async def lose(*_: Any, **__: Any) -> None:
            async with open_services(services.settings, works=False) as other:
                set_back(services.settings, services.heartbeat.worker_id, SILENCE_MS + 1_000)
                await other.job_worker.reap()

        faults.before(services.databases.server(NEAR), "reject_writes", lose, once=True)


_ADDED = "INSERT INTO written SELECT generate_series(2000, 2100)"
