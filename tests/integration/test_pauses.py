"""After a pause, a process holds nothing before its heartbeat: others would take it over."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenantry.backup import creating, move_undo, replacing
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import deleted_tenants, job_states, jobs, outbox, workers
from tenantry.catalog.job_queue import DRIFT, MOVE
from tenantry.catalog.job_states import JobState
from tenantry.catalog.outbox import Notice
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.workers import SILENCE_MS
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.hook_settings import Hook
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.delivery import Deliveries
from tenantry.work.job_functions import undone
from tenantry.work.ledger import new_job
from tenantry.work.post_hooks import PostHooks
from tenantry.work.progress import Progress
from tenantry.work.undoing import clear
from tenantry.work.worker import JobWorker
from testkit import raw_sql
from testkit.hook_endpoint import endpoint
from tests.conftest import provision

PAUSE_SECONDS = SILENCE_MS / 1000 + 0.2
WAIT_SECONDS = 100
NO_BEATS = Pace(beat_seconds=3_600)
NOWHERE = "http://127.0.0.1:9"
SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"

pytestmark = pytest.mark.slow


@pytest.fixture(name="idle")
async def _idle(settings: Settings) -> AsyncIterator[Services]:
    """A process that works on nothing, and whose heartbeats wait."""
    async with open_services(settings, works=False, pace=NO_BEATS) as services:
        yield services


async def _is_seen(services: Services) -> bool:
    """Return whether others see the heartbeat of a process."""
    published = await workers.published(services.catalog)
    return services.heartbeat.worker_id in {one.id for one in published}


@asynccontextmanager
async def _working(work: Awaitable[None]) -> AsyncIterator[None]:
    """Let background work run during the block."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _paused(services: Services) -> int:
    """Wait until others take the process for dead, and return its last heartbeat."""
    await asyncio.sleep(PAUSE_SECONDS)
    assert not await _is_seen(services)
    return _last_beat(services)


def _last_beat(services: Services) -> int:
    """Return when the only process had its last heartbeat, in milliseconds; 0 for never.

    Others may take it for dead again when a test on a busy machine reads this.
    """
    sql = "SELECT coalesce(max(seen_at_ms), 0) FROM worker"
    return int(raw_sql.rows(services.settings.catalog, sql)[0][0])


async def _until_beaten(services: Services, before: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while _last_beat(services) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


class TestPausedProcess:
    async def test_has_a_heartbeat_when_it_creates_a_tenant(self, idle: Services):
        before = await _paused(idle)

        await provision(idle, "acme")

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_claims_a_job(self, idle: Services):
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), DRIFT, tenant=made.tenant)
        ledger, kinds = idle.copying.ledger, idle.queue.kinds
        worker = JobWorker(ledger, kinds, concurrency=1, scratch=idle.copying.scratch)
        before = await _paused(idle)

        async with _working(worker.work()), asyncio.timeout(WAIT_SECONDS):
            while (await jobs.get(idle.catalog, job.id)).finished_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_claims_tenants_of_a_run(self, idle: Services):
        await provision(idle, "acme")
        run_id = await idle.fleet.plan(system_context("test"), triggered_by="ada")
        before = await _paused(idle)

        async with _working(idle.worker.work()):
            await idle.fleet.wait(run_id)

            assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_plans_a_run(self, idle: Services):
        await provision(idle, "acme")
        before = await _paused(idle)

        await idle.fleet.plan(system_context("test"), triggered_by="ada")

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_purges_a_tenant(self, idle: Services):
        ctx = system_context("test")
        made = await provision(idle, "acme")
        suspended = await idle.lifecycle.update(ctx, made.tenant, is_active=False)
        await idle.deletion.delete(ctx, suspended, name="acme")
        deleted = await deleted_tenants.get(idle.catalog, made.tenant.id)
        before = await _paused(idle)

        await idle.deletion.purge(ctx, deleted, name="acme")

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_drops_what_a_restore_has_kept(
        self, idle: Services, tmp_path: Path
    ):
        ctx, tenant = system_context("test"), (await provision(idle, "acme")).tenant
        target = FolderTarget(tmp_path / "archives")
        made = await creating.back_up(ctx, idle.copying, tenant, target, progress=Progress())
        with target.reading(Path(str(made.archive)).name) as file:
            reader = ArchiveReader(file, idle.copying.keys)
            await replacing.replace(
                ctx, idle.copying, reader, tenant, server_name=None, progress=Progress()
            )
        before = await _paused(idle)

        await replacing.confirm(ctx, idle.copying, tenant.id)

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_lifts_the_fence_of_a_lost_move(self, idle: Services):
        tenant, ledger = (await provision(idle, "acme")).tenant, idle.copying.ledger
        of, source = (tenant.id, tenant.name), (tenant.server_name, tenant.database_name)
        lost = new_job(system_context("test"), MOVE, tenant=of, source=source)
        await jobs.add(idle.catalog, lost, worker_id=ledger.worker_id)
        await clear(ledger, lost.id, undo=undone, error="Another process has ended it.")
        before = await _paused(idle)

        assert await move_undo.lift_if_lost(idle.copying, lost)

        assert _last_beat(idle) > before

    async def test_ends_its_lost_move_itself_if_no_living_process_holds_it(self, idle: Services):
        """It takes over no job that it has in work, and no other process may be left."""
        tenant, ledger = (await provision(idle, "acme")).tenant, idle.copying.ledger
        of, source = (tenant.id, tenant.name), (tenant.server_name, tenant.database_name)
        lost = new_job(system_context("test"), MOVE, tenant=of, source=source)
        async with idle.catalog.begin() as session:
            await jobs.add(session, lost, worker_id=ledger.worker_id)
            condemned = job_states.condemned("It was lost.")
            for event in (condemned, job_states.UNDONE, job_states.RELEASED):
                await jobs.apply(session, lost.id, event, worker_id=ledger.worker_id)
        ledger.busy.add(lost.id)
        server = idle.databases.server(tenant.server_name)
        await server.reject_writes(tenant.database_name)

        async with asyncio.timeout(WAIT_SECONDS):
            assert await move_undo.lift_if_lost(idle.copying, lost)

        assert (await jobs.get(idle.catalog, lost.id)).state == JobState.FAILED
        url = server.url(tenant.database_name)
        await asyncio.to_thread(raw_sql.run, url, "UPDATE tenantry_user SET full_name = 'Ada'")

    async def test_has_a_heartbeat_when_it_takes_lost_jobs(self, idle: Services):
        before = await _paused(idle)

        await idle.job_worker.reap()

        assert _last_beat(idle) > before

    async def test_has_a_heartbeat_when_it_sends_a_notification(self, idle: Services):
        notice, subscribed = Notice("run.ended", {"text": "It is a test."}), {"ops": ["run.ended"]}
        with endpoint() as served:
            hook = Hook.model_validate({"url": served.url, "secret": SECRET})
            async with idle.catalog.begin() as session:
                await outbox.add(session, subscribed, [notice], now=utc_now())
            sending = Deliveries(idle.catalog, idle.heartbeat, {"ops": hook}, pace=PACE)
            before = await _paused(idle)

            async with _working(sending.work()):
                await _until_beaten(idle, before)

    async def test_has_a_heartbeat_when_it_reads_for_the_hooks_of_posts(self, idle: Services):
        hook = Hook.model_validate({"url": NOWHERE, "secret": SECRET, "tenants": [new_id()]})
        hooks = {"site": hook}
        reading = PostHooks(idle.catalog, idle.databases, idle.heartbeat, hooks, pace=PACE)
        before = await _paused(idle)

        async with _working(reading.work()):
            await _until_beaten(idle, before)
