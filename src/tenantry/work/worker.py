"""Run the queued jobs: backups, moves, checks for drift and all others, each in its own lane.

So a restore never waits behind the backups, the moves or a check of the whole fleet. Each process
claims jobs one at a time. If it dies, another one drops what a job had begun, and the job has
failed. What a process has claimed and not begun, it gives back.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog

from tenantry.catalog import job_queue
from tenantry.catalog.job_queue import LANES, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.snapshots import remove_left
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.tracing import span
from tenantry.work import undoing
from tenantry.work.job_functions import Kind
from tenantry.work.ledger import Ledger, reason_of
from tenantry.work.progress import Progress

POLL_SECONDS = 1.0
ENDED_AT_ONCE = 64
"""Jobs of this process that only wait until every process knows the new database of a tenant."""

_log = structlog.get_logger(__name__)


class JobWorker:
    """Claims queued jobs and runs them.

    Args:
        kinds: The kinds of work, by their names.
        concurrency: Jobs of each lane at the same time; 0 for none.
        scratch: The folder for temporary copies.
    """

    def __init__(
        self, held: Ledger, kinds: Mapping[str, Kind], *, concurrency: int, scratch: Path
    ) -> None:
        self._ledger = held
        self._kinds = kinds
        self._concurrency = concurrency
        self._scratch = scratch
        self._ending = asyncio.Semaphore(ENDED_AT_ONCE)
        self._hinted = asyncio.Event()

    def hint(self) -> None:
        """Claim at once: this process has queued a job."""
        hinted, self._hinted = self._hinted, asyncio.Event()
        hinted.set()

    async def reap(self) -> None:
        """Clean up what no living process runs: temporary files on this machine, and jobs.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        await asyncio.to_thread(remove_left, self._scratch)
        await undoing.reap(self._ledger, self._kinds)

    async def work(self) -> None:
        """Run jobs until cancelled.

        Then what the running ones have begun is removed. Those in `running.REPEATABLE` are queued
        again, and what has not begun.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in LANES:
                    tasks.create_task(self._serve(tasks, lane))
        finally:
            worker_id = self._ledger.worker_id
            with contextlib.suppress(DatabaseUnavailable):
                await job_queue.give_back(self._ledger.catalog, worker_id=worker_id, running=[])

    async def _serve(self, tasks: asyncio.TaskGroup, lane: str) -> None:
        free = asyncio.Semaphore(self._concurrency)
        while True:
            await free.acquire()
            tasks.create_task(self._run(await self._next(lane), free))

    async def _next(self, lane: str) -> Job:
        while True:
            hinted = self._hinted
            with contextlib.suppress(DatabaseUnavailable):
                job = await self._claim(lane)
                if job is not None:
                    return job
            # Not `wait_for`, which ignores a cancellation that arrives with the hint.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await hinted.wait()

    async def _claim(self, lane: str) -> Job | None:
        catalog, worker_id = self._ledger.catalog, self._ledger.worker_id
        async with self._ledger.claiming:
            # Reading first: on SQLite, an update waits for other writers, and they for it.
            if not await job_queue.is_waiting(catalog, lane):
                return None
            await self._ledger.heartbeat.renew()
            busy = self._ledger.busy
            job = await job_queue.claim(
                catalog, lane, worker_id=worker_id, now=utc_now(), busy=busy
            )
            if job is not None:
                busy.add(job.id)
            return job

    async def _run(self, job: Job, free: asyncio.Semaphore) -> None:
        """Run a job that has a place in *free*, and release that."""
        try:
            try:
                held = await self._attempt(job)
                if held is not None:
                    await self._ending.acquire()
            finally:
                free.release()
            if held is not None:
                await self._end(held)
        finally:
            self._ledger.busy.discard(job.id)

    async def _attempt(self, job: Job) -> Job | None:
        """Run a job; return it if it has a database to drop at the end."""
        try:
            options = msgspec.json.decode(job.options or "", type=JobOptions)
            ctx = OperationContext(
                request_id=options.request_id,
                now=utc_now(),
                actor=job.actor,
                address=options.address,
            )
            with span(f"job {job.kind}", job_id=str(job.id), request_id=options.request_id):
                return await self._kinds[job.kind].run(ctx, job, options, Progress(job.id))
        except Exception as error:  # noqa: BLE001 - it is the result of the job
            _log.info("job failed", job=str(job.id), kind=job.kind, exc_info=True)
            # If it had begun, it has ended already, or is left to any process.
            undo = self._kinds[job.kind].undo
            await undoing.clear(self._ledger, job.id, undo=undo, error=reason_of(error))
            return None

    async def _end(self, held: Job) -> None:
        """Drop an old database. Other tenants are moved while this waits for every process."""
        try:
            await self._kinds[held.kind].end(held)
        except Exception:  # noqa: BLE001 - logged; any process drops it
            _log.exception("old database not dropped yet", job=str(held.id))
        finally:
            self._ending.release()
