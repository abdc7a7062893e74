"""Run a job: its row in the catalog, its progress, and the cleanup of what it has begun."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import structlog

from tenantry.backup.archive import Keys
from tenantry.catalog import jobs, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.jobs import Job
from tenantry.catalog.tenants import Tenant, TenantNotFound
from tenantry.db import audit_log
from tenantry.db.postgres_tools import PostgresTools
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.snapshots import remove_left
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.lifecycle import ActivationFailed, Lifecycle
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.tenant.databases import TenantDatabases

PROGRESS_SECONDS = 1.0
ERROR_CHARS_MAX = 1_000

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


class Progress:
    """Counts the bytes of a job; another thread may read it at any time.

    Attributes:
        bytes_done: So far.
    """

    def __init__(self) -> None:
        self.bytes_done = 0

    def add(self, data: bytes) -> None:
        """Count *data*."""
        self.bytes_done += len(data)

    def add_bytes(self, count: int) -> None:
        """Count so many bytes."""
        self.bytes_done += count


@asynccontextmanager
async def running(copying: Copying, job: Job, progress: Progress) -> AsyncIterator[Job]:
    """Run *job* in the block, which must end it with `jobs.finish`.

    If the block raises, the database of the job is dropped, and the job has failed.
    """
    worker_id = copying.heartbeat.worker_id
    try:
        await jobs.add(copying.catalog, job, worker_id=worker_id)
        noting = asyncio.create_task(_note(copying, job, progress))
        try:
            yield job
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)
            await _note_once(copying, job, progress)
    except BaseException as error:
        message = explain(error) if isinstance(error, Exception) else "It was cancelled."
        # Shielded: a second cancellation must not keep the database from being dropped.
        await asyncio.shield(_clear(copying, job.id, error=message[:ERROR_CHARS_MAX]))
        raise


def new_job(
    ctx: OperationContext,
    kind: str,
    *,
    tenant: tuple[UUID | None, str | None] = (None, None),
    archive: str | None = None,
    database: tuple[str | None, str | None] = (None, None),
    has_suspended: bool = False,
    source: tuple[str | None, str | None] = (None, None),
    has_made_read_only: bool = False,
) -> Job:
    """Return a job that begins now.

    Args:
        ctx: Who begins it.
        kind: What it does.
        tenant: The id and the name of the tenant.
        archive: Where the archive is.
        database: The server and the name of the database that it fills.
        has_suspended: Whether it suspends the tenant, which was active.
        source: The server and the name of the database that a move copies.
        has_made_read_only: Whether it makes the tenant read-only, which was writable.
    """
    return Job(
        id=new_id(),
        kind=kind,
        tenant_id=tenant[0],
        tenant_name=tenant[1],
        archive=archive,
        server_name=database[0],
        database_name=database[1],
        actor=ctx.actor,
        started_at=ctx.now,
        has_suspended=has_suspended,
        source_server_name=source[0],
        source_database_name=source[1],
        has_made_read_only=has_made_read_only,
    )


async def reap(copying: Copying) -> None:
    """Clean up the jobs of dead processes, and their temporary files on this machine.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    await asyncio.to_thread(remove_left, copying.scratch)
    worker_id = copying.heartbeat.worker_id
    for job in await jobs.take_abandoned(copying.catalog, worker_id=worker_id):
        await _clear(copying, job.id)


async def drop_old(copying: Copying, taken: list[Job]) -> None:
    """Drop the old databases of *taken* jobs, which this process holds."""
    for job in taken:
        await _clear(copying, job.id)


async def _clear(copying: Copying, job_id: UUID, *, error: str | None = None) -> None:
    """Drop the database of a job and end the job; if that fails, leave it to any process."""
    worker_id = copying.heartbeat.worker_id
    try:
        # The database is read from the row: after a lost COMMIT it can be another one.
        job = await jobs.condemn(copying.catalog, job_id, worker_id=worker_id, error=error)
        if job is None:
            return
        if job.server_name is not None and job.database_name is not None:
            await copying.databases.server(job.server_name).drop(job.database_name)
        if job.error is not None:
            await _undo(copying, job)
        await jobs.finish(
            copying.catalog,
            job.id,
            worker_id=worker_id,
            at=utc_now(),
            error=job.error,
        )
    except (Unavailable, OSError):
        _log.warning("job not cleaned up yet", job=str(job_id), exc_info=True)
        with contextlib.suppress(DatabaseUnavailable):
            await jobs.abandon(copying.catalog, job_id, worker_id=worker_id)


async def _undo(copying: Copying, job: Job) -> None:
    """Undo what a failed job has done to its tenant."""
    if job.source_server_name is not None and job.source_database_name is not None:
        source = copying.databases.server(job.source_server_name)
        await source.accept_writes(job.source_database_name)
    tenant = None if job.tenant_id is None else await tenants.find(copying.catalog, job.tenant_id)
    if tenant is None:
        return
    ctx = OperationContext(
        request_id=str(new_id()), now=utc_now(), actor="housekeeping", address="local"
    )
    if job.has_suspended and not tenant.is_active:
        await _activate(ctx, copying, tenant)
    if job.has_made_read_only and tenant.is_read_only:
        with contextlib.suppress(TenantNotFound):
            await set_read_only(ctx, copying, tenant, is_read_only=False)


async def set_read_only(
    ctx: OperationContext, copying: Copying, tenant: Tenant, *, is_read_only: bool
) -> Tenant:
    """Make a tenant read-only or writable, at the revision that it has.

    Raises:
        TenantNotFound: It was deleted.
    """
    changes: audit_log.Changes = []
    async with copying.catalog.change(
        ctx, "tenant.update", tenant.id, tenant_id=tenant.id, changes=changes
    ) as session:
        changed = await tenants.update(
            session, tenant.id, name=None, is_active=None, modules=None, is_read_only=is_read_only
        )
        changes += audit_log.changes_between(tenant, changed, "is_read_only")
    return changed


async def _activate(ctx: OperationContext, copying: Copying, tenant: Tenant) -> None:
    try:
        await copying.lifecycle.update(ctx, tenant, is_active=True)
    except ActivationFailed:
        _log.warning("tenant stays suspended", tenant=str(tenant.id), exc_info=True)


async def _note(copying: Copying, job: Job, progress: Progress) -> None:
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        await _note_once(copying, job, progress)


async def _note_once(copying: Copying, job: Job, progress: Progress) -> None:
    with contextlib.suppress(DatabaseUnavailable):
        await jobs.note(copying.catalog, job.id, bytes_done=progress.bytes_done)
