"""After a pause, a process claims nothing before its heartbeat: others would take it over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tenantry.catalog import jobs, workers
from tenantry.catalog.job_queue import DRIFT
from tenantry.catalog.pace import Pace
from tenantry.catalog.workers import SILENCE_MS
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings
from tenantry.work.worker import JobWorker
from tests.conftest import provision

PAUSE_SECONDS = SILENCE_MS / 1000 + 0.2
WAIT_SECONDS = 30
NO_BEATS = Pace(beat_seconds=3_600)

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


class TestPausedProcess:
    async def test_has_a_heartbeat_when_it_creates_a_tenant(self, idle: Services):
        await asyncio.sleep(PAUSE_SECONDS)
        assert not await _is_seen(idle)

        await provision(idle, "acme")

        assert await _is_seen(idle)

    async def test_has_a_heartbeat_when_it_claims_a_job(self, idle: Services):
        made = await provision(idle, "acme")
        job = await idle.queue.add(system_context("test"), DRIFT, tenant=made.tenant)
        ledger, kinds = idle.copying.ledger, idle.queue.kinds
        worker = JobWorker(ledger, kinds, concurrency=1, scratch=idle.copying.scratch)
        await asyncio.sleep(PAUSE_SECONDS)
        assert not await _is_seen(idle)

        working = asyncio.create_task(worker.work())
        async with asyncio.timeout(WAIT_SECONDS):
            while (await jobs.get(idle.catalog, job.id)).finished_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working

        assert await _is_seen(idle)

    async def test_has_a_heartbeat_when_it_claims_tenants_of_a_run(self, settings: Settings):
        async with open_services(settings, pace=NO_BEATS) as services:
            await provision(services, "acme")
            await asyncio.sleep(PAUSE_SECONDS)
            assert not await _is_seen(services)

            run_id = await services.fleet.plan(system_context("test"), triggered_by="ada")
            await services.fleet.wait(run_id)

            assert await _is_seen(services)
