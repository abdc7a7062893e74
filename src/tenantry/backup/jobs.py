"""Run a job: its row in the catalog, its progress, and the cleanup of what it has begun."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tenantry.backup.archive import Keys
from tenantry.catalog import audit, job_cleanup, job_queue, jobs, moves, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_queue import CANCELLED
from tenantry.catalog.jobs import Job, TenantMoving
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import TenantNotFound
from tenantry.db.copying import replication
from tenantry.db.postgres.tools import PostgresTools
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.snapshots import remove_left
from tenantry.db.sqlite.files import FILE_ERRORS
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.sizes import NO_MARK, FreeSpaceMark
from tenantry.migration.errors import explain
from tenantry.tenant.databases import TenantDatabases

PROGRESS_SECONDS = 1.0
REPEATABLE = {"backup", "verify", "move", "prune", "drift"}
"""Jobs that are queued again when their process is stopped: what they have begun is undone."""
STOPPED = "The process was stopped. What the job had begun was removed."
LIFTING = "Lifts the write fence of a move that another process had ended before."
# Changes in the audit log.
ACTIVATED = [{"field": "isActive", "old": False, "new": True}]
MADE_WRITABLE = [{"field": "isReadOnly", "old": True, "new": False}]

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
    mark: FreeSpaceMark = NO_MARK

    @property
    def worker_id(self) -> UUID:
        """The id of this process, which holds the jobs that it runs."""
        return self.heartbeat.worker_id


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
        is_final: Whether the job has begun what it must not report as cancelled.
        is_cancelled: Whether an admin has cancelled it.
        report: What the job has found so far; its text becomes the note of the job.
    """

    def __init__(self, queued_id: UUID | None = None, *, total: "Progress | None" = None) -> None:
        self.job_id = new_id() if queued_id is None else queued_id
        self.is_queued = queued_id is not None
        self.bytes_done = 0
        self.is_final = False
        self.is_cancelled = False
        self.report: object = None
        self._total = total

    @property
    def note(self) -> str | None:
        """The text of the report, if there is one."""
        return None if self.report is None else str(self.report)

    def add(self, count: int) -> None:
        """Count so many bytes."""
        self.bytes_done += count
        if self._total is not None:
            self._total.add(count)


@asynccontextmanager
async def running(copying: Copying, job: Job, progress: Progress) -> AsyncIterator[None]:
    """Run *job* in the block, which must end it with `finish`.

    If the block raises, the database of the job is dropped, and the job has failed.

    Raises:
        JobCancelled: An admin has cancelled it.
        JobLost: It was queued, and is no longer held by this process.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        await _begin(copying, job, progress)
        noting = asyncio.create_task(_note(copying, job, progress, task))
        try:
            yield
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)
            await _note_once(copying, job, progress)
    except BaseException as error:
        message = CANCELLED if progress.is_cancelled or not progress.is_queued else STOPPED
        if isinstance(error, Exception):
            message = reason_of(error)
        again = message is STOPPED and job.kind in REPEATABLE
        # Shielded: a second cancellation must not keep the database from being dropped.
        await asyncio.shield(_clear(copying, job.id, error=message, again=again))
        if progress.is_cancelled and task.uncancel() <= before:
            raise JobCancelled from error
        raise


async def finish(
    session: CatalogSession, copying: Copying, job: Job, *, kept: tuple[str, str] | None = None
) -> Job:
    """End a job that has succeeded, in the block of `running`; see `catalog.jobs.finish`.

    Raises:
        JobLost: This process does not hold it any longer.
    """
    done = await jobs.finish(session, job.id, worker_id=copying.worker_id, at=utc_now(), kept=kept)
    if done is None:
        raise JobLost
    return done


async def finish_audited(
    ctx: OperationContext,
    copying: Copying,
    job: Job,
    progress: Progress,
    action: str,
    *,
    changes: Sequence[Mapping[str, object]] = (),
) -> Job:
    """Do the same as `finish`, with the last progress and an entry in the audit log."""
    ctx = ctx.at(utc_now())
    async with copying.catalog.begin() as session:
        await jobs.note(session, job.id, bytes_done=progress.bytes_done, note=progress.note)
        done = await finish(session, copying, job)
        await audit.LOG.add(session, ctx, action, job.id, tenant_id=job.tenant_id, changes=changes)
    return done


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
    """Return a job that begins now: it fills *database*; a move copies *source* (server, name)."""
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
    taken = await job_cleanup.take_abandoned(copying.catalog, worker_id=copying.worker_id)
    failing: set[str] = set()
    for drops in (False, True):
        for job in taken:
            server_name = job.server_name if drops else job.source_server_name or job.server_name
            if server_name in failing:
                await _leave(copying, job.id)
            elif not await _clear(copying, job.id, drops=drops) and server_name is not None:
                failing.add(server_name)


async def drop_old(copying: Copying, taken: list[Job]) -> int:
    """Drop the old databases of *taken* jobs, which this process holds; return how many it did."""
    return sum([await _clear(copying, job.id) for job in taken])


async def lift_if_lost(copying: Copying, job: Job) -> bool:
    """Lift the write fence that a move has just set, if this process does not hold its job.

    The process that has ended the job did so before, so nothing else would lift it. A job of its
    own does, unless the tenant is moved again: that move needs the fence. While a job is held when
    its fence is set, the process that ends it lifts the fence. Return whether the job was lost.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached. The fence is lifted.
    """
    assert job.source_server_name is not None
    assert job.source_database_name is not None
    try:
        if await jobs.lock(copying.catalog, job.id, worker_id=copying.worker_id) is not None:
            return False
        lifting = msgspec.structs.replace(
            job, id=new_id(), server_name=None, database_name=None, note=LIFTING, options=None
        )
        with contextlib.suppress(TenantMoving):
            await jobs.add(copying.catalog, lifting, worker_id=copying.worker_id)
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
    """Drop the database of a job that this process holds, and end it; return False after a failure.

    Then any process tries again. *error* is why the job has failed. With *again* it is queued again
    instead; without *drops* it is only undone.
    """
    catalog, worker_id = copying.catalog, copying.worker_id
    try:
        # The database is read from the row: after a lost COMMIT it can be another one.
        job = await jobs.condemn(catalog, job_id, worker_id=worker_id, error=error)
        if job is None:  # another process has ended it
            return True
        if job.error is not None:
            # First: the tenant must not wait for the server of the new database. And only once: if
            # that is away, another process tries again later, when an admin may have changed it.
            await _undo(copying, job)
            await jobs.note_undone(catalog, job_id, worker_id=worker_id)
        if not drops:
            return True
        if job.server_name is not None and job.database_name is not None:
            await copying.databases.server(job.server_name).drop(job.database_name)
        if again and job.error is not None:
            await job_queue.queue_again(catalog, job.id, worker_id=worker_id)
        else:
            await jobs.finish(catalog, job.id, worker_id=worker_id, at=utc_now(), error=job.error)
    except (Unavailable, OSError):
        _log.warning("job not cleaned up yet", job=str(job_id), exc_info=True)
        await _leave(copying, job_id)
        return False
    return True


async def _leave(copying: Copying, job_id: UUID) -> None:
    """Let any process clean up a job later."""
    with contextlib.suppress(DatabaseUnavailable):
        await job_cleanup.abandon(copying.catalog, job_id, worker_id=copying.worker_id)


async def _undo(copying: Copying, job: Job) -> None:
    """Undo what a failed job has done; last the slot of a move, for which no tenant waits."""
    server_name, database_name = job.source_server_name, job.source_database_name
    if server_name is None or database_name is None:
        await _give_back(copying, job)
        return
    source = copying.databases.server(server_name)
    await source.accept_writes(database_name)
    await _give_back(copying, job)
    await source.stop_following(database_name, replication.name_of(job.id))


async def _give_back(copying: Copying, job: Job) -> None:
    """Let the tenant of a failed job be active and writable, as it was before."""
    tenant_id = job.tenant_id
    if tenant_id is None:
        return
    ctx = OperationContext(
        request_id=str(new_id()), now=utc_now(), actor="housekeeping", address="local"
    )
    if job.has_suspended:
        await _activate(ctx, copying, job, tenant_id)
    if job.has_made_read_only:
        with contextlib.suppress(TenantNotFound):  # it is writable, or was purged
            async with copying.catalog.change(
                ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=MADE_WRITABLE
            ) as session:
                if await moves.unfreeze(session, tenant_id) is None:
                    raise TenantNotFound


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
    except Exception as error:
        if isinstance(error, Unavailable):
            raise
        _log.warning("tenant stays suspended", tenant=str(tenant_id), exc_info=True)
        return
    with contextlib.suppress(TenantNotFound):  # or it was deleted
        async with copying.catalog.change(
            ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=ACTIVATED
        ) as session:
            # First, because an admin's change locks the job first, too.
            if not await jobs.note_activated(session, job.id, worker_id=copying.worker_id):
                raise TenantNotFound
            await tenants.update(session, tenant_id, name=None, is_active=True, modules=None)


async def _begin(copying: Copying, job: Job, progress: Progress) -> None:
    if not progress.is_queued:
        await jobs.add(copying.catalog, job, worker_id=copying.worker_id)
    elif not await job_queue.begin(copying.catalog, job, worker_id=copying.worker_id):
        raise JobLost


async def _note(copying: Copying, job: Job, progress: Progress, task: "asyncio.Task[Any]") -> None:
    """Store the progress until cancelled; if an admin cancels the job, cancel *task*."""
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        if await _note_once(copying, job, progress) and not progress.is_final:
            progress.is_cancelled = True
            task.cancel()
            return


async def _note_once(copying: Copying, job: Job, progress: Progress) -> bool:
    with contextlib.suppress(DatabaseUnavailable):
        return await jobs.note(
            copying.catalog, job.id, bytes_done=progress.bytes_done, note=progress.note
        )
    return False
