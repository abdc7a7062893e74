"""Run the queued jobs: backups, moves, checks for drift and all others, each in its own lane.

So a restore never waits behind the backups, the moves or a check of the whole fleet. Each process
claims jobs one at a time. If it dies, another one drops what a job had begun, and the job has
failed. What a process has claimed and not begun, it gives back.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import msgspec
import structlog

from tenantry.backup import cloning, creating, moving, pruning, restoring, verifying
from tenantry.backup.archives import Archives
from tenantry.backup.drift_check import check_drift
from tenantry.backup.jobs import Copying, Progress, reason_of
from tenantry.catalog import job_cleanup, job_queue, tenants
from tenantry.catalog.job_queue import (
    BACKUP,
    CLONE,
    DRIFT,
    LANES,
    MOVE,
    PRUNE,
    REPLACE,
    RESTORE,
    VERIFY,
    JobOptions,
)
from tenantry.catalog.jobs import Job
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.drift import DriftCheck, DriftReport
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext

POLL_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class JobWorker:
    """Claims queued jobs and runs them.

    Args:
        archives: Of the target that the settings name.
        concurrency: Jobs of each lane at the same time; 0 for none.
    """

    def __init__(
        self, copying: Copying, archives: Archives, drift: DriftCheck, *, concurrency: int
    ) -> None:
        self._copying = copying
        self._archives = archives
        self._drift = drift
        self._concurrency = concurrency
        self._running: set[UUID] = set()
        self._ending = asyncio.Semaphore(moving.MOVED_AT_ONCE)
        self._is_unsure = False
        self._claiming = asyncio.Lock()
        self._hinted = asyncio.Event()

    def hint(self) -> None:
        """Claim at once: this process has queued a job."""
        hinted, self._hinted = self._hinted, asyncio.Event()
        hinted.set()

    async def work(self) -> None:
        """Run jobs until cancelled.

        Then what the running ones have begun is removed. The `REPEATABLE` ones are queued again,
        and what has not begun.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in LANES:
                    tasks.create_task(self._serve(tasks, lane))
        finally:
            worker_id = self._copying.worker_id
            with contextlib.suppress(DatabaseUnavailable):
                await job_queue.give_back(self._copying.catalog, worker_id=worker_id, running=[])

    async def _serve(self, tasks: asyncio.TaskGroup, lane: str) -> None:
        free = asyncio.Semaphore(self._concurrency)
        while True:
            await free.acquire()
            tasks.create_task(self._run(await self._next(lane), free))

    async def _next(self, lane: str) -> Job:
        while True:
            hinted = self._hinted
            try:
                job = await self._claim(lane)
            except DatabaseUnavailable:
                self._is_unsure = True  # the COMMIT of a claim may have succeeded
                job = None
            if job is not None:
                return job
            # Not `wait_for`, which ignores a cancellation that arrives with the hint.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await hinted.wait()

    async def _claim(self, lane: str) -> Job | None:
        catalog, worker_id = self._copying.catalog, self._copying.worker_id
        async with self._claiming:
            if self._is_unsure:
                await job_queue.give_back(catalog, worker_id=worker_id, running=self._running)
                self._is_unsure = False
            # Reading first: on SQLite, an update waits for other writers, and they for it.
            if not await job_queue.is_waiting(catalog, lane):
                return None
            job = await job_queue.claim(catalog, lane, worker_id=worker_id, now=utc_now())
            if job is not None:
                self._running.add(job.id)
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
            self._running.discard(job.id)

    async def _attempt(self, job: Job) -> Job | None:
        """Run a job; return it if its tenant was moved and has an old database."""
        try:
            options = msgspec.json.decode(job.options or "", type=JobOptions)
            ctx = OperationContext(
                request_id=options.request_id,
                now=utc_now(),
                actor=job.actor,
                address=options.address,
            )
            return await self._work_of(job)(ctx, job, options, Progress(job.id))
        except Exception as error:  # noqa: BLE001 - it is the result of the job
            _log.info("job failed", job=str(job.id), kind=job.kind, exc_info=True)
            await self._fail(job, reason_of(error))
            return None

    async def _end(self, held: Job) -> None:
        """Drop an old database. Other tenants are moved while this waits for every process."""
        try:
            await moving.drop_when_known(self._copying, held)
        except Exception:  # noqa: BLE001 - logged; the job is given back
            _log.exception("old database not dropped yet", job=str(held.id))
            self._is_unsure = True
        finally:
            self._ending.release()

    async def _fail(self, job: Job, error: str) -> None:
        """End a job that has failed before it began; others have ended already.

        One that has begun and could not be cleaned up is left to any process.
        """
        catalog, worker_id = self._copying.catalog, self._copying.worker_id
        try:
            if not await job_queue.fail(
                catalog, job.id, worker_id=worker_id, now=utc_now(), error=error
            ):
                await job_cleanup.abandon(catalog, job.id, worker_id=worker_id)
        except DatabaseUnavailable:
            self._is_unsure = True

    def _work_of(self, job: Job) -> "Work":
        return {
            BACKUP: self._back_up,
            VERIFY: self._verify,
            RESTORE: self._restore,
            REPLACE: self._replace,
            CLONE: self._clone,
            MOVE: self._move,
            PRUNE: self._prune,
            DRIFT: self._check_drift,
        }[job.kind]

    async def _back_up(
        self, ctx: OperationContext, job: Job, _options: JobOptions, progress: Progress
    ) -> None:
        copying, target = self._copying, await self._archives.target()
        if job.tenant_id is None:
            await creating.back_up_catalog(ctx, copying, target, progress=progress)
            return
        tenant = await tenants.get(copying.catalog, job.tenant_id)
        await creating.back_up_tenant(ctx, copying, tenant, target, progress=progress)

    async def _verify(
        self, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
    ) -> None:
        async with self._archives.reading(options.archive or "") as reader:
            await verifying.verify(ctx, self._copying, reader, server_name=None, progress=progress)

    async def _restore(
        self, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
    ) -> None:
        copying, server_name = self._copying, options.server_name
        async with self._archives.reading(options.archive or "") as reader:
            if options.name is None:
                await restoring.restore_back(
                    ctx, copying, reader, server_name=server_name, progress=progress
                )
                return
            await restoring.restore_as(
                ctx,
                copying,
                reader,
                name=options.name,
                server_name=server_name,
                progress=progress,
                with_key=False,  # its secret could not be shown to the admin
            )

    async def _replace(
        self, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
    ) -> None:
        assert job.tenant_id is not None
        tenant = await tenants.get(self._copying.catalog, job.tenant_id)
        async with self._archives.reading(options.archive or "") as reader:
            await restoring.replace(
                ctx, self._copying, reader, tenant, server_name=None, progress=progress
            )

    async def _clone(
        self, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
    ) -> None:
        assert job.tenant_id is not None
        assert options.name is not None
        await cloning.clone(
            ctx,
            self._copying,
            await tenants.get(self._copying.catalog, job.tenant_id),
            name=options.name,
            server_name=options.server_name,
            progress=progress,
            with_key=False,
        )

    async def _prune(
        self, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
    ) -> None:
        assert options.keep_days is not None
        assert options.keep_last is not None
        await pruning.prune(
            ctx,
            self._copying,
            await self._archives.target(),
            keep_days=options.keep_days,
            keep_last=options.keep_last,
            progress=progress,
        )

    async def _check_drift(
        self, ctx: OperationContext, job: Job, _options: JobOptions, progress: Progress
    ) -> None:
        catalog, tenant_id = self._copying.catalog, job.tenant_id
        tenant = None if tenant_id is None else await tenants.get(catalog, tenant_id)
        report = DriftReport()
        await check_drift(ctx, self._copying, self._drift, report, tenant=tenant, progress=progress)

    async def _move(
        self, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
    ) -> Job:
        assert job.tenant_id is not None
        assert options.server_name is not None
        held, _ = await moving.carry(
            ctx,
            self._copying,
            await tenants.get(self._copying.catalog, job.tenant_id),
            server_name=options.server_name,
            progress=progress,
        )
        return held


Work = Callable[[OperationContext, Job, JobOptions, Progress], Awaitable[Job | None]]
