"""Run a job: its row in the catalog, its progress, and the cleanup of what it has begun."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tenantry.backup.archive import Keys
from tenantry.catalog import job_cleanup, job_queue, jobs, moves, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_queue import CANCELLED
from tenantry.catalog.jobs import Job, TenantMoving
from tenantry.catalog.tenants import TenantNotFound
from tenantry.db import audit_log, replication
from tenantry.db.files import FILE_ERRORS
from tenantry.db.postgres_tools import PostgresTools
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.snapshots import remove_left
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.tenant.databases import TenantDatabases

PROGRESS_SECONDS = 1.0
ERROR_CHARS_MAX = 1_000
REPEATABLE = {"backup", "verify", "move", "prune", "drift"}
"""Jobs that are queued again when their process is stopped: what they have begun is undone."""
STOPPED = "The process was stopped. What the job had begun was removed."
LIFTING = "Lifts the write fence of a move that another process had ended before."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Copying:
    """What every backup, restore and copy needs.

    Attributes:
        scratch: The folder for temporary copies of SQLite files.
        catalog_url: The catalog itself, which is backed up with the tenants.
    """

    catalog: Catalog
    catalog_url: str
    databases: TenantDatabases
    lifecycle: Lifecycle
    heartbeat: Heartbeat
    tools: PostgresTools
    keys: Keys
    scratch: Path


class JobCancelled(Conflict):
    """The job was cancelled."""


class JobLost(Unavailable):
    """Another process has ended this job, because this one was silent for too long: try again."""


class Progress:
    """Counts the bytes of one job; another thread may read it at any time.

    Args:
        queued_id: The job, if it was queued and is claimed; None for a new one.
        total: Also counts them: of several jobs together.

    Attributes:
        job_id: The id of the job.
        is_queued: Whether it was queued.
        bytes_done: So far.
        is_final: Whether the job has begun what it must not report as cancelled.
        report: What the job has found so far; its text becomes the note of the job.
    """

    def __init__(self, queued_id: UUID | None = None, *, total: "Progress | None" = None) -> None:
        self.job_id = new_id() if queued_id is None else queued_id
        self.is_queued = queued_id is not None
        self.bytes_done = 0
        self.is_final = False
        self.report: object = None
        self._total = total

    def add(self, data: bytes) -> None:
        """Count *data*."""
        self.add_bytes(len(data))

    def add_bytes(self, count: int) -> None:
        """Count so many bytes."""
        self.bytes_done += count
        if self._total is not None:
            self._total.add_bytes(count)


@asynccontextmanager
async def running(copying: Copying, job: Job, progress: Progress) -> AsyncIterator[Job]:
    """Run *job* in the block, which must end it with `jobs.finish`.

    If the block raises, the database of the job is dropped, and the job has failed.

    Raises:
        JobCancelled: An admin has cancelled it.
        JobLost: It was queued, and is no longer held by this process.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    noting: asyncio.Task[bool] | None = None
    try:
        await _begin(copying, job, progress)
        noting = asyncio.create_task(_note(copying, job, progress, task))
        try:
            yield job
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)
            await _note_once(copying, job, progress)
    except BaseException as error:
        message = CANCELLED if _is_done(noting) or not progress.is_queued else STOPPED
        if isinstance(error, Exception):
            message = reason_of(error)
        # Shielded: a second cancellation must not keep the database from being dropped.
        again = message is STOPPED and job.kind in REPEATABLE
        error_text = message[:ERROR_CHARS_MAX]
        await asyncio.shield(_clear(copying, job.id, error=error_text, again=again))
        if _is_done(noting) and task.uncancel() <= before:
            raise JobCancelled from error
        raise


def reason_of(error: Exception) -> str:
    """Return why a job has failed, in a form that may be shown."""
    if isinstance(error, OSError) and error.errno in FILE_ERRORS:
        return f"A file cannot be read or written: {os.strerror(error.errno)}."
    return explain(error)


def new_job(
    ctx: OperationContext,
    kind: str,
    progress: Progress,
    *,
    tenant: tuple[UUID | None, str | None] = (None, None),
    archive: str | None = None,
    database: tuple[str | None, str | None] = (None, None),
    source: tuple[str | None, str | None] = (None, None),
    note: str | None = None,
) -> Job:
    """Return a job that begins now.

    Args:
        ctx: Who begins it.
        kind: What it does.
        progress: With its id.
        tenant: The id and the name of the tenant.
        archive: Where the archive is.
        database: The server and the name of the database that it fills.
        source: The server and the name of the database that a move copies.
        note: How it works, and why.
    """
    return Job(
        id=progress.job_id,
        kind=kind,
        tenant_id=tenant[0],
        tenant_name=tenant[1],
        archive=archive,
        server_name=database[0],
        database_name=database[1],
        actor=ctx.actor,
        started_at=ctx.now,
        source_server_name=source[0],
        source_database_name=source[1],
        note=note,
    )


async def reap(copying: Copying) -> None:
    """Clean up the jobs of dead processes, and their temporary files on this machine.

    First every job is undone, because tenants wait for that, and then the databases are dropped.
    After a failure, the other jobs of that server wait for the next call: each of them could wait
    for a connection that times out, and the rest of the housekeeping with it.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    await asyncio.to_thread(remove_left, copying.scratch)
    worker_id = copying.heartbeat.worker_id
    taken = await job_cleanup.take_abandoned(copying.catalog, worker_id=worker_id)
    failing: set[str] = set()
    for drops in (False, True):
        for job in taken:
            server_name = job.server_name if drops else job.source_server_name or job.server_name
            if server_name in failing:
                await _leave(copying, job.id)
            elif not await _clear(copying, job.id, drops=drops) and server_name is not None:
                failing.add(server_name)


async def drop_old(copying: Copying, taken: list[Job]) -> None:
    """Drop the old databases of *taken* jobs, which this process holds."""
    for job in taken:
        await _clear(copying, job.id)


async def lift_if_lost(copying: Copying, job: Job) -> bool:
    """Lift the write fence that a move has just set, if this process does not hold its job.

    The process that has ended the job did so before, so nothing else would lift it. A job of its
    own does, unless the tenant is moved again: that move needs the fence. While a job is held when
    its fence is set, the process that ends it lifts the fence.

    Returns:
        Whether the job was lost.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached. The fence is lifted.
    """
    assert job.source_server_name is not None
    assert job.source_database_name is not None
    worker_id = copying.heartbeat.worker_id
    try:
        if await jobs.lock(copying.catalog, job.id, worker_id=worker_id) is not None:
            return False
        lifting = msgspec.structs.replace(
            job, id=new_id(), server_name=None, database_name=None, note=LIFTING, options=None
        )
        with contextlib.suppress(TenantMoving):
            await jobs.add(copying.catalog, lifting, worker_id=worker_id)
            await _clear(copying, lifting.id, error=JobLost().message)
    except DatabaseUnavailable:
        source = copying.databases.server(job.source_server_name)
        await source.accept_writes(job.source_database_name)
        raise
    return True


async def _clear(
    copying: Copying,
    job_id: UUID,
    *,
    error: str | None = None,
    again: bool = False,
    drops: bool = True,
) -> bool:
    """Drop the database of a job and end the job; if that fails, leave it to any process.

    Args:
        copying: The services.
        job_id: The job, which this process holds.
        error: Why it has failed.
        again: Whether it is queued again instead.
        drops: Whether its database is dropped, and the job ended; else it is only undone.

    Returns:
        False if it failed.
    """
    worker_id = copying.heartbeat.worker_id
    try:
        # The database is read from the row: after a lost COMMIT it can be another one.
        job = await jobs.condemn(copying.catalog, job_id, worker_id=worker_id, error=error)
        if job is None:  # another process has ended it
            return True
        if job.error is not None:
            # First: the tenant must not wait for the server of the new database. And only once: if
            # that is away, another process tries again later, when an admin may have changed it.
            await _undo(copying, job)
            await _stop_following(copying, job)
            await jobs.note_undone(copying.catalog, job_id, worker_id=worker_id)
        if not drops:
            return True
        if job.server_name is not None and job.database_name is not None:
            await copying.databases.server(job.server_name).drop(job.database_name)
        if again and job.error is not None:
            await job_queue.queue_again(copying.catalog, job.id, worker_id=worker_id)
            return True
        await jobs.finish(
            copying.catalog, job.id, worker_id=worker_id, at=utc_now(), error=job.error
        )
    except (Unavailable, OSError):
        _log.warning("job not cleaned up yet", job=str(job_id), exc_info=True)
        await _leave(copying, job_id)
        return False
    return True


async def _leave(copying: Copying, job_id: UUID) -> None:
    """Let any process clean up a job later."""
    with contextlib.suppress(DatabaseUnavailable):
        await job_cleanup.abandon(copying.catalog, job_id, worker_id=copying.heartbeat.worker_id)


async def _undo(copying: Copying, job: Job) -> None:
    """Undo what a failed job has done to its tenant."""
    if job.source_server_name is not None and job.source_database_name is not None:
        source = copying.databases.server(job.source_server_name)
        await source.accept_writes(job.source_database_name)
    if job.tenant_id is None:
        return
    ctx = OperationContext(
        request_id=str(new_id()), now=utc_now(), actor="housekeeping", address="local"
    )
    if job.has_suspended:
        await _activate(ctx, copying, job, job.tenant_id)
    if job.has_made_read_only:
        with contextlib.suppress(TenantNotFound):  # it is writable, or was purged
            await _make_writable(ctx, copying, job.tenant_id)


async def _stop_following(copying: Copying, job: Job) -> None:
    """Drop the replication slot of a move: last, because the tenant does not wait for it."""
    if job.source_server_name is not None and job.source_database_name is not None:
        source = copying.databases.server(job.source_server_name)
        await source.stop_following(job.source_database_name, replication.name_of(job.id))


async def _make_writable(ctx: OperationContext, copying: Copying, tenant_id: UUID) -> None:
    changes: audit_log.Changes = []
    async with copying.catalog.change(
        ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=changes
    ) as session:
        changed = await moves.unfreeze(session, tenant_id)
        if changed is None:
            raise TenantNotFound
        before = msgspec.structs.replace(changed, is_read_only=True)
        changes += audit_log.changes_between(before, changed, "is_read_only")


async def _activate(ctx: OperationContext, copying: Copying, job: Job, tenant_id: UUID) -> None:
    """Activate the tenant that a job has suspended, unless an admin wants it suspended, too.

    A tenant that cannot be migrated stays suspended.

    Raises:
        Unavailable: Its server is away: this is to be tried again.
    """
    tenant = await tenants.find(copying.catalog, tenant_id)
    if tenant is None or tenant.is_active:
        return
    try:
        await copying.lifecycle.bring_to_head(tenant)
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - the tenant stays suspended
        _log.warning("tenant stays suspended", tenant=str(tenant_id), exc_info=True)
        return
    changes: audit_log.Changes = []
    with contextlib.suppress(TenantNotFound):  # or it was deleted
        async with copying.catalog.change(
            ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=changes
        ) as session:
            # First, because an admin's change locks the job first, too.
            if not await jobs.note_activated(
                session, job.id, worker_id=copying.heartbeat.worker_id
            ):
                raise TenantNotFound
            changed = await tenants.update(
                session, tenant_id, name=None, is_active=True, modules=None
            )
            changes += audit_log.changes_between(tenant, changed, "is_active")


async def _begin(copying: Copying, job: Job, progress: Progress) -> None:
    worker_id = copying.heartbeat.worker_id
    if not progress.is_queued:
        await jobs.add(copying.catalog, job, worker_id=worker_id)
    elif not await job_queue.begin(copying.catalog, job, worker_id=worker_id):
        raise JobLost


async def _note(copying: Copying, job: Job, progress: Progress, task: "asyncio.Task[Any]") -> bool:
    """Store the progress until cancelled; if an admin cancels the job, cancel *task*."""
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        if await _note_once(copying, job, progress) and not progress.is_final:
            task.cancel()
            return True


async def _note_once(copying: Copying, job: Job, progress: Progress) -> bool:
    with contextlib.suppress(DatabaseUnavailable):
        note = None if progress.report is None else str(progress.report)
        return await jobs.note(copying.catalog, job.id, bytes_done=progress.bytes_done, note=note)
    return False


def _is_done(noting: "asyncio.Task[bool] | None") -> bool:
    return noting is not None and not noting.cancelled() and noting.result()
