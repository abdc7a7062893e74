"""Run a job that this process holds: its row, its progress, and what removes it if it fails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tenantry.catalog import job_states, jobs, tenants
from tenantry.catalog.job_queue import BACKUP, DRIFT, MOVE, PRUNE, VERIFY, WAVE
from tenantry.catalog.job_states import CANCELLED, Job
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.errors import Conflict
from tenantry.work import undoing
from tenantry.work.job_functions import Undo, undone
from tenantry.work.ledger import Ledger, note_event, reason_of
from tenantry.work.progress import Progress
from tenantry.work.undoing import STOPPED

PROGRESS_SECONDS = 1.0
REPEATABLE = {BACKUP, VERIFY, MOVE, PRUNE, DRIFT, WAVE}
"""Jobs that are queued again when their process is stopped: what they have begun is undone."""


class JobCancelled(Conflict):
    """The job was cancelled."""


@asynccontextmanager
async def running(
    ledger: Ledger,
    job: Job,
    progress: Progress | None = None,
    *,
    undo: Undo = undone,
    tenant: Tenant | None = None,
    owner_email: str | None = None,
) -> AsyncIterator[None]:
    """Run *job* in the block, which must end it, as `finish` does.

    If the block raises, *undo* is called, the database of the job is dropped, and the job has
    failed. A new *tenant* with this database is listed with the job, and removed with it. Without
    *progress*, only its caller can cancel the job, so its kind must not be listed.

    Raises:
        JobCancelled: An admin has cancelled it.
        JobLost: It was queued, and is no longer held by this process.
        TenantNameInUse, TenantIdInUse, DatabaseInUse: The *tenant* cannot be listed.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    ledger.busy.add(job.id)
    try:
        await _begin(ledger, job, progress, tenant, owner_email)
        async with _noting(ledger, job, progress, task):
            yield
    except BaseException as error:
        is_queued = progress is not None and progress.is_queued
        is_cancelled = progress is not None and progress.is_cancelled
        message = CANCELLED if is_cancelled or not is_queued else STOPPED
        if isinstance(error, Exception):
            message = reason_of(error)
        again = message is STOPPED and job.kind in REPEATABLE
        # Shielded: a second cancellation must not keep the database from being dropped.
        await asyncio.shield(undoing.fail(ledger, job, undo=undo, error=message, again=again))
        if is_cancelled and task.uncancel() <= before:
            raise JobCancelled from error
        raise
    ledger.busy.discard(job.id)


async def _begin(
    ledger: Ledger,
    job: Job,
    progress: Progress | None,
    tenant: Tenant | None,
    owner_email: str | None,
) -> None:
    await ledger.heartbeat.renew()
    async with ledger.catalog.begin() as session:
        if progress is not None and progress.is_queued:
            await note_event(session, ledger, job, job_states.begun(job))
        else:
            await jobs.add(session, job, worker_id=ledger.worker_id)
        if tenant is not None:
            await tenants.add(session, tenant, worker_id=ledger.worker_id, owner_email=owner_email)


@asynccontextmanager
async def _noting(
    ledger: Ledger, job: Job, progress: Progress | None, task: "asyncio.Task[Any]"
) -> AsyncIterator[None]:
    """Store the progress while the block runs; if an admin cancels the job, cancel *task*."""
    if progress is None:
        yield
        return

    async def note() -> bool:
        with contextlib.suppress(DatabaseUnavailable):
            return await jobs.note(
                ledger.catalog, job.id, bytes_done=progress.bytes_done, note=progress.note
            )
        return False

    async def keep_noting() -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            if await note() and not progress.is_final:
                progress.is_cancelled = True
                task.cancel()
                return

    noting = asyncio.create_task(keep_noting())
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
        await note()
