"""Moves that an admin requests over HTTP: queued, run, cancelled, and queued again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.backup import same_engine
from tenantry.catalog import job_queue, tenants
from tenantry.catalog import jobs as job_rows
from tenantry.catalog.job_queue import BACKUP, CLONE, MOVE, OTHER
from tenantry.catalog.job_states import CANCELLED, INTERRUPTED, Job, JobState
from tenantry.catalog.jobs import TenantMoving
from tenantry.catalog.tenants import Tenant
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import SERVER_DEFAULT, Settings
from tenantry.work import undoing
from tenantry.work.worker import JobWorker
from testkit import raw_sql
from testkit.faults import Faults
from tests.acceptance.support import Raw, lost
from tests.conftest import World, provision
from tests.integration.queued import JOBS, TENANTS, WAIT_SECONDS, done, ended

pytestmark = pytest.mark.slow

NEAR, FAR = SERVER_DEFAULT, "far"
MOVE_ALL = f"{TENANTS}/move-all"
COUNT = "SELECT count(*) FROM tenantry_post"
INSERT = "UPDATE tenantry_post SET title = 'written'"


@pytest.fixture(name="settings")
def _settings(settings: Settings) -> Settings:
    """With a second tenant server: another folder, or the same server under another name."""
    url = settings.servers["default"].address
    far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / 'far'}"
    servers = {**settings.tenant_servers, FAR: {"url": far}}
    return Settings(**{**settings.model_dump(exclude_unset=True), "tenant_servers": servers})


@pytest.fixture(name="admin")
async def _admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with await world.admin() as client:
        yield client


@pytest.fixture(name="idle")
async def _idle(settings: Settings) -> AsyncIterator[Services]:
    """A process that runs no jobs."""
    changed = settings.model_copy(update={"job_concurrency": 0})
    async with open_services(changed, works=False) as services:
        yield services


@pytest.fixture(name="copied_until")
def _copied_until(faults: Faults) -> tuple[asyncio.Event, asyncio.Event]:
    """Each copy sets the first event, and waits for the second."""
    begun, released = asyncio.Event(), asyncio.Event()

    async def wait(*_: Any, **__: Any) -> None:
        begun.set()
        await released.wait()

    faults.after(same_engine, "copy", wait)
    return begun, released


async def databases(services: Services) -> list[str]:
    """Return the databases of tenants, on both servers."""
    names = {
        name
        for server in services.databases.server_names
        for name in await services.databases.server(server).names("tenantry_")
    }
    return sorted(name for name in names if "template" not in name)


async def found(services: Services, tenant_id: UUID) -> Tenant:
    return await tenants.get(services.catalog, tenant_id)


def write_to(services: Services, tenant: Tenant) -> None:
    """Write to the database of a tenant, past Tenantry."""
    url = services.databases.server(tenant.server_name).url(tenant.database_name)
    raw_sql.run(url, INSERT)


async def ended_row(services: Services, job_id: UUID) -> Job:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            job = await job_rows.get(services.catalog, job_id)
            if job.finished_at is not None:
                return job
            await asyncio.sleep(0.05)


@asynccontextmanager
async def working(services: Services) -> AsyncIterator[None]:
    """Run the jobs in the block, and stop as a process that gets a signal."""
    worker = JobWorker(
        services.copying.ledger,
        services.queue.kinds,
        concurrency=1,
        scratch=services.copying.scratch,
    )
    task = asyncio.create_task(worker.work())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class TestMove:
    async def test_gives_the_tenant_a_database_on_the_other_server(
        self, world: World, admin: httpx.AsyncClient
    ):
        before = await databases(world.services)

        job = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/move", server=FAR)

        assert (job["kind"], job["state"], job["tenantName"]) == ("move", "done", "acme")
        assert job["bytesDone"] > 0
        moved = (await admin.get(f"{TENANTS}/{world.acme.tenant.id}")).json()["data"]
        assert (moved["serverName"], moved["isReadOnly"]) == (FAR, False)
        url = world.services.databases.server(FAR).url(moved["databaseName"])
        assert raw_sql.rows(url, COUNT) == [(1,)]
        after = await databases(world.services)
        assert set(before) - set(after) == {world.acme.tenant.database_name}

    async def test_is_in_the_audit_log_with_the_admin_and_both_servers(
        self, world: World, admin: httpx.AsyncClient
    ):
        job = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/move", server=FAR)

        entries = (await admin.get("/api/admin/audit-log")).json()["data"]["items"]
        (queued,) = [one for one in entries if one["target"] == job["id"]]
        (moved,) = [one for one in entries if one["action"] == "tenant.move"]
        assert queued["action"] == "move.queue"
        assert queued["requestId"] == moved["requestId"]
        assert queued["actor"] == moved["actor"] == job["actor"] == "ada@example.com"
        for entry in (queued, moved):
            changes = {one["field"]: (one["old"], one["new"]) for one in entry["changes"]}
            assert changes["serverName"] == (NEAR, FAR)

    @pytest.mark.parametrize(
        ("server", "code"), [("nowhere", "unknown_server"), (NEAR, "same_server")]
    )
    async def test_is_not_queued_if_the_server_cannot_be_used(
        self, world: World, admin: httpx.AsyncClient, server: str, code: str
    ):
        answer = await admin.post(f"{TENANTS}/{world.acme.tenant.id}/move", json={"server": server})

        assert (answer.status_code, answer.headers["x-error-code"]) == (400, code)
        assert (await admin.get(JOBS)).json()["data"]["items"] == []

    async def test_is_queued_only_once_for_a_tenant(self, idle: Services):
        ctx = system_context("test")
        made = await provision(idle, "acme")
        await idle.queue.add(ctx, MOVE, tenant=made.tenant, server_name=FAR)

        with pytest.raises(TenantMoving):
            await idle.queue.add(ctx, MOVE, tenant=made.tenant, server_name=FAR)

        assert await idle.queue.move_all(ctx, from_server=NEAR, to_server=FAR) == 0

    async def test_fails_with_the_reason_and_changes_nothing(
        self, world: World, admin: httpx.AsyncClient
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        url = services.databases.server(acme.server_name).url(acme.database_name)
        await services.databases.forget(acme.id)
        await services.databases.server(acme.server_name).drop(acme.database_name)

        answer = await admin.post(f"{TENANTS}/{acme.id}/move", json={"server": FAR})

        job = await ended(admin, answer.json()["data"]["id"])
        assert job["state"] == "failed"
        assert job["error"]
        assert url not in job["error"]
        assert await found(services, acme.id) == acme
        assert await databases(services) == [one for one in before if one != acme.database_name]

    async def test_of_every_tenant_of_a_server_is_one_job_for_each(self, admin: httpx.AsyncClient):
        body = {"fromServer": NEAR, "toServer": FAR}

        answer = await admin.post(MOVE_ALL, json=body)

        assert (answer.status_code, answer.json()["data"]) == (202, {"count": 2})
        listed = (await admin.get(JOBS)).json()["data"]["items"]
        assert [(await ended(admin, one["id"]))["state"] for one in listed] == ["done"] * 2
        moved = (await admin.get(TENANTS, params={"server": FAR})).json()["data"]["items"]
        assert {one["name"] for one in moved} == {"acme", "globex"}
        assert (await admin.post(MOVE_ALL, json=body)).json()["data"] == {"count": 0}
        back = {"fromServer": FAR, "toServer": "nowhere"}
        assert (await admin.post(MOVE_ALL, json=back)).status_code == 400


class TestCancel:
    async def test_stops_a_move_and_makes_the_tenant_writable_again(
        self,
        world: World,
        admin: httpx.AsyncClient,
        copied_until: tuple[asyncio.Event, asyncio.Event],
    ):
        services, acme = world.services, world.acme.tenant
        before = await databases(services)
        answer = await admin.post(f"{TENANTS}/{acme.id}/move", json={"server": FAR})
        await asyncio.wait_for(copied_until[0].wait(), WAIT_SECONDS)
        assert (await found(services, acme.id)).is_read_only

        job_id = answer.json()["data"]["id"]
        assert (await admin.post(f"{JOBS}/{job_id}/cancel", json={})).status_code == 202

        job = await ended(admin, job_id)
        assert (job["state"], job["error"]) == ("failed", CANCELLED)
        assert await found(services, acme.id) == acme
        assert await databases(services) == before
        write_to(services, acme)


class TestJobWorker:
    async def test_queues_a_move_again_when_its_process_is_stopped(
        self, idle: Services, copied_until: tuple[asyncio.Event, asyncio.Event]
    ):
        """As at an upgrade: the next process moves the tenant."""
        begun, released = copied_until
        made = await provision(idle, "acme")
        before = await databases(idle)
        job = await idle.queue.add(
            system_context("test"), MOVE, tenant=made.tenant, server_name=FAR
        )

        async with working(idle):
            await asyncio.wait_for(begun.wait(), WAIT_SECONDS)

        waiting = await job_rows.get(idle.catalog, job.id)
        assert (waiting.state, waiting.error, waiting.finished_at) == (JobState.QUEUED, None, None)
        assert (waiting.database_name, waiting.source_database_name) == (None, None)
        assert await found(idle, made.tenant.id) == made.tenant
        assert await databases(idle) == before
        write_to(idle, made.tenant)
        released.set()
        async with working(idle):
            assert (await ended_row(idle, job.id)).state == JobState.DONE
        assert (await found(idle, made.tenant.id)).server_name == FAR
        assert len(await databases(idle)) == len(before)

    async def test_gives_up_the_move_of_a_process_that_was_killed(
        self, idle: Services, settings: Settings
    ):
        ctx, dead = system_context("test"), new_id()
        made = await provision(idle, "acme")
        killed = await idle.queue.add(ctx, MOVE, tenant=made.tenant, server_name=FAR)
        await job_queue.claim(idle.catalog, MOVE, worker_id=dead, now=utc_now())

        async with open_services(settings) as services:
            job = await ended_row(services, killed.id)
            assert (job.state, job.error) == (JobState.FAILED, INTERRUPTED)
            assert await found(services, made.tenant.id) == made.tenant

            again = await services.queue.add(ctx, MOVE, tenant=made.tenant, server_name=FAR)

            job = await ended_row(services, again.id)
            assert (job.state, job.error) == (JobState.DONE, None)

    @pytest.mark.parametrize("is_back_early", [True, False])
    async def test_cleans_up_a_move_that_fails_while_the_catalog_is_away(
        self, idle: Services, faults: Faults, *, is_back_early: bool
    ):
        """Its database is dropped and its tenant writable again, whenever the catalog is back."""
        made = await provision(idle, "acme")
        before = await databases(idle)
        job = await idle.queue.add(
            system_context("test"), MOVE, tenant=made.tenant, server_name=FAR
        )
        outage, copied = contextlib.ExitStack(), asyncio.Event()

        def lose_the_catalog(*_: Any, **__: Any) -> None:
            outage.enter_context(lost(Raw(idle.settings.catalog)))
            copied.set()

        faults.after(same_engine, "copy", lose_the_catalog, once=True)
        if is_back_early:  # for the end of the job
            faults.after(undoing, "clear", lambda *_, **__: outage.close(), once=True)
        worker = JobWorker(
            idle.copying.ledger, idle.queue.kinds, concurrency=1, scratch=idle.copying.scratch
        )
        working = asyncio.create_task(worker.work())
        await asyncio.wait_for(copied.wait(), WAIT_SECONDS)
        await asyncio.sleep(1)  # everything that ends the job fails
        outage.close()
        async with asyncio.timeout(WAIT_SECONDS):
            while (await job_rows.get(idle.catalog, job.id)).finished_at is None:
                await idle.job_worker.reap()
                await asyncio.sleep(0.05)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working

        assert (await job_rows.get(idle.catalog, job.id)).state == JobState.FAILED
        assert await found(idle, made.tenant.id) == made.tenant
        assert await databases(idle) == before
        write_to(idle, made.tenant)

    async def test_claims_a_restore_while_moves_and_backups_wait(self, idle: Services):
        ctx = system_context("test")
        made = await provision(idle, "acme")
        await idle.queue.move_all(ctx, from_server=NEAR, to_server=FAR)
        await idle.queue.back_up(ctx, None)
        clone = await idle.queue.add(ctx, CLONE, tenant=made.tenant, name="copy")

        claimed = [
            await job_queue.claim(idle.catalog, lane, worker_id=new_id(), now=utc_now())
            for lane in (OTHER, MOVE, BACKUP)
        ]

        assert claimed[0] is not None
        assert claimed[0].id == clone.id
        assert [one and one.kind for one in claimed] == ["clone", "move", "backup"]
        assert len((await job_rows.page(idle.catalog, Window(1, 9))).items) == 4
