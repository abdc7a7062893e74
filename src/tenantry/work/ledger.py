"""The ledger of durable work: hold a job while it runs, and remove what it has begun if it fails.

This process holds the jobs that it runs by its heartbeat. A job that no living process holds is
cleaned up by any process, from its row alone: see `reap`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import structlog

from tenantry.catalog import audit, job_queue, job_states, jobs, owned_databases, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_states import CANCELLED, INTERRUPTED, Event, Job
from tenantry.catalog.jobs import ADOPT, PURGE
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite.files import FILE_ERRORS
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.heartbeat import Heartbeat
from tenantry.work.kinds import Kind, Undo, undone
from tenantry.work.progress import Progress

PROGRESS_SECONDS = 1.0
REPEATABLE = {"backup", "verify", "move", "prune", "drift", "wave-check"}
"""Jobs that are queued again when their process is stopped: what they have begun is undone."""
REPEATED_WHEN_LOST = {"wave-check"}
"""Jobs that are queued again also when their process has died: a run waits for them."""
STOPPED = "The process was stopped. What the job had begun was removed."
INTERRUPTIONS = {STOPPED, INTERRUPTED}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The jobs that this process holds.

    Attributes:
        busy: Those that it runs, or cleans up; each is here first, and then in the catalog. Any
            process cleans up the others.
        failed: Those with a cleanup that has failed because a server is away.
        claiming: Held from a claim until its job is *busy*.
        left: Databases (server, name) that it has created for jobs that another process has ended
            by then, and has not dropped yet.
    """

    catalog: Catalog
    databases: TenantDatabases
    heartbeat: Heartbeat
    busy: set[UUID] = field(default_factory=set)
    failed: set[UUID] = field(default_factory=set)
    claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    left: set[tuple[str, str]] = field(default_factory=set)

    @property
    def worker_id(self) -> UUID:
        """The id of this process, which holds the jobs."""
        return self.heartbeat.worker_id


class JobCancelled(Conflict):
    """The job was cancelled."""


class JobLost(Unavailable):
    """Another process has ended this job, because this one was silent for too long: try again."""


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
    """Run *job* in the block, which must end it with `finish`.

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
        await asyncio.shield(_fail(ledger, job, undo=undo, error=message, again=again))
        if is_cancelled and task.uncancel() <= before:
            raise JobCancelled from error
        raise
    ledger.busy.discard(job.id)


async def finish(
    session: CatalogSession, ledger: Ledger, job: Job, *, kept: tuple[str, str] | None = None
) -> Job:
    """End a job that has succeeded, in a transaction in the block of `running`.

    *kept* is the server and the name of a database that is kept.

    Raises:
        JobLost: This process no longer holds it.
    """
    return await note_event(session, ledger, job, job_states.succeeded(utc_now(), kept))


async def note_event(session: CatalogSession, ledger: Ledger, job: Job, event: Event) -> Job:
    """Write what an event makes of a job, in a transaction; return the job.

    Raises:
        JobLost: This process no longer holds it.
    """
    noted = await jobs.apply(session, job.id, event, worker_id=ledger.worker_id)
    if noted is None:
        raise JobLost
    return noted


async def finish_audited(
    ctx: OperationContext,
    ledger: Ledger,
    job: Job,
    progress: Progress,
    action: str,
    *,
    changes: Sequence[Mapping[str, object]] = (),
) -> Job:
    """Do the same as `finish`, with the last progress and an entry in the audit log."""
    ctx = ctx.at(utc_now())
    async with ledger.catalog.begin() as session:
        await jobs.note(session, job.id, bytes_done=progress.bytes_done, note=progress.note)
        done = await finish(session, ledger, job)
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
    progress: Progress | None = None,
    *,
    new: Tenant | None = None,
    tenant: tuple[UUID | None, str | None] = (None, None),
    archive: str | None = None,
    database: tuple[str | None, str | None] = (None, None),
    source: tuple[str | None, str | None] = (None, None),
    note: str | None = None,
) -> Job:
    """Return a job that begins now: it fills *database*; a move copies *source* (server, name).

    For a *new* tenant, it fills the database of that.
    """
    if new is not None:
        tenant, database = (new.id, new.name), (new.server_name, new.database_name)
    return Job(
        id=new_id() if progress is None else progress.job_id,
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


async def reap(ledger: Ledger, kinds: Mapping[str, Kind]) -> None:
    """Clean up the jobs that no living process runs.

    First every job is undone, because tenants wait for that, and then the databases are dropped.
    After a failure, the other jobs of that server wait for the next call: each of them could wait
    for a connection that times out, and the rest of the housekeeping with it.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    worker_id, busy = ledger.worker_id, ledger.busy
    await _drop_left(ledger)
    async with ledger.claiming:
        async with ledger.catalog.begin() as session:
            await job_queue.give_back(session, worker_id=worker_id, running=busy)
            for tenant in await tenants.take_abandoned(session, worker_id=worker_id):
                await jobs.add(session, _cleanup_of(tenant), worker_id=worker_id)
            taken = await jobs.take_lost(session, worker_id=worker_id, busy=busy)
        # After the COMMIT: if its answer is lost, the next call takes them.
        busy.update(job.id for job in taken)
    ledger.failed.intersection_update(job.id for job in taken)
    if len(ledger.failed) == len(taken):
        ledger.failed.clear()
    taken.sort(key=lambda job: job.id in ledger.failed)  # then another one of a server is tried
    failing: set[str] = set()
    for drops in (False, True):
        for job in taken:
            server_name = job.server_name if drops else job.source_server_name or job.server_name
            if server_name in failing:
                await _release(ledger, job.id)
                continue
            undo = kinds[job.kind].undo if job.kind in kinds else undone
            again = job.kind in REPEATED_WHEN_LOST and job.error in INTERRUPTIONS
            error = await clear(ledger, job.id, undo=undo, again=again, drops=drops)
            # If the server answers, only this database cannot be dropped.
            is_away = error is not None and not isinstance(error.__cause__, asyncpg.PostgresError)
            if is_away and server_name is not None:
                failing.add(server_name)
                ledger.failed.add(job.id)


async def drop_old(ledger: Ledger, taken: Iterable[Job]) -> int:
    """Drop the old databases of *taken* jobs, which this process holds; return how many it did."""
    return sum([await clear(ledger, job.id, undo=undone) is None for job in taken])


async def clear(
    ledger: Ledger,
    job_id: UUID,
    *,
    undo: Undo,
    error: str | None = None,
    again: bool = False,
    drops: bool = True,
) -> Unavailable | OSError | None:
    """Drop the database of a job that this process holds, and end it.

    *error* is why the job has failed. With *again* it is queued again instead; without *drops* it
    is only undone.

    Returns:
        Why that failed: then any process tries again. None if nothing is left.
    """
    catalog, worker_id = ledger.catalog, ledger.worker_id
    try:
        # The database is read from the row: after a lost COMMIT it can be another one.
        async with catalog.begin() as session:
            job = await jobs.apply(
                session, job_id, job_states.condemned(error), worker_id=worker_id
            )
            unseen = None if job is None else await tenants.condemn(session, job)
        if job is None:  # it has ended
            return None
        if unseen is not None:
            await ledger.databases.forget(unseen.id)
        if job.error is not None:
            # First: the tenant must not wait for the server of the new database. And only once: if
            # that is away, another process tries again later, when an admin may have changed it.
            await undo(job)
            async with catalog.begin() as session:
                await jobs.apply(session, job_id, job_states.UNDONE, worker_id=worker_id)
        if drops:
            await _drop(ledger, job, again=again)
    except (Unavailable, OSError) as failure:
        _log.warning("job not cleaned up yet", job=str(job_id), exc_info=True)
        await _release(ledger, job_id)
        return failure
    finally:
        if drops:
            ledger.busy.discard(job_id)
    return None


async def _fail(ledger: Ledger, job: Job, *, undo: Undo, error: str, again: bool) -> None:
    """Clean up a job that has failed in this process, even if another one has ended it before.

    That one has dropped the database; since then, this process may have created it again.
    """
    left = await clear(ledger, job.id, undo=undo, error=error, again=again)
    if left is not None or job.server_name is None or job.database_name is None:
        return
    ledger.left.add((job.server_name, job.database_name))
    await _drop_left(ledger)


async def _drop_left(ledger: Ledger) -> None:
    """Drop what is *left*. After a failure, `reap` tries again; `doctor` names it after a kill."""
    for server_name, name in tuple(ledger.left):
        with contextlib.suppress(Unavailable, OSError):
            if not await owned_databases.is_needed(ledger.catalog, server_name, name):
                await ledger.databases.server(server_name).drop(name)
            ledger.left.discard((server_name, name))


async def _drop(ledger: Ledger, job: Job, *, again: bool) -> None:
    """Drop the database of a job, and end it, with the row of a tenant that is not ready."""
    if job.server_name is not None and job.database_name is not None:
        await ledger.databases.server(job.server_name).drop(job.database_name)
    is_repeated = again and job.error is not None
    event = job_states.QUEUED_AGAIN if is_repeated else job_states.cleaned(utc_now())
    async with ledger.catalog.begin() as session:
        await jobs.apply(session, job.id, event, worker_id=ledger.worker_id)
        if job.database_name is not None:
            await tenants.remove_unseen(session, job)


async def _release(ledger: Ledger, job_id: UUID) -> None:
    """Release a job, so that any process can clean it up later."""
    ledger.busy.discard(job_id)
    with contextlib.suppress(DatabaseUnavailable):
        async with ledger.catalog.begin() as session:
            await jobs.apply(session, job_id, job_states.RELEASED, worker_id=ledger.worker_id)


def housekeeping() -> OperationContext:
    """Return the context in which a job is cleaned up."""
    return OperationContext(
        request_id=str(new_id()), now=utc_now(), actor="housekeeping", address="local"
    )


def _cleanup_of(tenant: Tenant) -> Job:
    """Return the job that removes a tenant of a dead worker, of an older release."""
    is_adopted = tenant.state == TenantState.ADOPTING.value
    place, nothing = (tenant.server_name, tenant.database_name), (None, None)
    return new_job(
        housekeeping(),
        ADOPT if is_adopted else PURGE,
        tenant=(tenant.id, tenant.name),
        database=nothing if is_adopted else place,
        source=place if is_adopted else nothing,
    )


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
