"""Restore an archive in place of a tenant, whose old database is kept until an admin confirms."""

import contextlib
from functools import partial
from uuid import UUID

import structlog

from tenantry.backup import loading
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.copying import Copying
from tenantry.backup.loading import Revised
from tenantry.backup.restoring import Restored
from tenantry.catalog import audit, job_states, jobs, moves, tenants
from tenantry.catalog.database import Unchanged
from tenantry.catalog.job_queue import REPLACE, JobOptions
from tenantry.catalog.job_states import Job, JobState
from tenantry.catalog.tenants import Tenant, TenantNotFound
from tenantry.db import audit_log
from tenantry.db.sessions import retry_deadlock
from tenantry.fleet.deletion import DatabaseNotDropped, WrongName
from tenantry.kit.clock import utc_now
from tenantry.kit.context import HOUSEKEEPING, OperationContext, system_context
from tenantry.kit.errors import Conflict, NotFound, Unavailable
from tenantry.kit.ids import new_id
from tenantry.work.ledger import JobLost, finish, new_job, note_event
from tenantry.work.progress import Progress
from tenantry.work.running import running
from tenantry.work.undoing import drop_old

# Changes in the audit log.
SUSPENDED = [{"field": "isActive", "old": True, "new": False}]
ACTIVATED = [{"field": "isActive", "old": False, "new": True}]

_log = structlog.get_logger(__name__)


class TenantChanged(Conflict):
    """The tenant was suspended, activated, moved or deleted since. Nothing was changed."""


class ArchiveOfOther(Conflict):
    """The archive is of another tenant: restore it as a new tenant."""


class NothingKept(NotFound):
    """No old database of this tenant is kept."""


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Check the archive of a queued restore in place of a tenant, and the name of the tenant.

    Raises:
        NotATenant: The archive is of the catalog.
        WrongEngine: The tenant is on a server of the other engine now.
        TenantNotFound: It was deleted.
        ArchiveOfOther: It is of another tenant.
        WrongName: The tenant has another name.
        ArchiveNotFound, ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
        S3Missing, S3Unavailable: The target cannot be read.
    """
    header = await loading.tenant_header(copying, options)
    if header.tenant_id != job.tenant_id:
        raise ArchiveOfOther
    if options.name != job.tenant_name:
        raise WrongName
    assert job.tenant_id is not None
    tenant = await tenants.get(copying.catalog, job.tenant_id)
    loading.server_of_engine(copying, header.engine, tenant.server_name)
    return job


async def run(
    copying: Copying, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
) -> None:
    """Restore the archive of a queued job in place of its tenant."""
    assert job.tenant_id is not None
    tenant = await tenants.get(copying.catalog, job.tenant_id)
    async with copying.archives.reading(options.archive or "") as reader:
        await replace(ctx, copying, reader, tenant, server_name=None, progress=progress)


async def replace(
    ctx: OperationContext,
    copying: Copying,
    reader: ArchiveReader,
    tenant: Tenant,
    *,
    server_name: str | None,
    progress: Progress,
) -> Restored:
    """Restore an archive in place of a tenant, which is suspended for that time.

    The tenant keeps its id, name, API keys and settings; sessions end. Its old database is kept
    until `confirm`. The new one is on the server *server_name*; None for the one that it is on.

    Raises:
        ArchiveOfOther: The tenant's users must not get the data of another one.
        TenantChanged: The tenant was changed since it was read.
        UnknownServer, WrongEngine, NotATenant, ArchiveDamaged, CopyDiffers, RoleTooPowerful: As
            for `restoring.restore`.
    """
    record = await loading.read_record(reader)
    loading.check_revisions(copying, reader.header)
    if record.id != tenant.id:
        raise ArchiveOfOther
    # An archive from before a move must not undo it without being asked.
    server_name = loading.server_of_engine(
        copying, reader.header.engine, server_name or tenant.server_name
    )
    server = copying.databases.server(server_name)
    database_name = f"tenantry_{new_id().hex}"
    of, filled = (tenant.id, tenant.name), (server_name, database_name)
    job = new_job(ctx, REPLACE, progress, tenant=of, database=filled)
    async with running(copying.ledger, job, progress, undo=partial(undo, copying)):
        if tenant.is_active:
            tenant = await retry_deadlock(partial(_suspend, ctx, copying, job, tenant))
        await loading.fill(copying, reader, server, database_name, progress)
        revised = await loading.bring_to_head(copying, server, database_name)
        swapping = partial(_swap, ctx, copying, job, tenant, revised=revised)
        replaced = await retry_deadlock(swapping)
    return Restored(tenant=replaced, key=None, behind=revised.behind)


async def undo(copying: Copying, job: Job) -> None:
    """Activate the tenant that a failed restore has suspended.

    A tenant stays suspended if an admin wants that, too, or if it cannot be migrated.

    Raises:
        Unavailable: Its server is away: this is to be tried again.
    """
    tenant_id = job.tenant_id
    if tenant_id is None or not job.has_suspended:
        return
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
    ctx = system_context(HOUSEKEEPING)
    with contextlib.suppress(TenantNotFound):  # it was deleted
        async with copying.catalog.change(
            ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=ACTIVATED
        ) as session:
            # First, because an admin's change locks the job first, too.
            before = await jobs.lock(session, job.id, worker_id=copying.ledger.worker_id)
            if before is None or not before.has_suspended:
                raise Unchanged
            await jobs.apply(
                session, job.id, job_states.ACTIVATED, worker_id=copying.ledger.worker_id
            )
            await tenants.update(session, tenant_id, is_active=True)


async def confirm(ctx: OperationContext, copying: Copying, tenant_id: UUID) -> int:
    """Drop the old databases of a tenant; return how many.

    Raises:
        NothingKept: There is none.
        DatabaseNotDropped: Any process drops those that are left later.
    """
    await copying.ledger.heartbeat.renew()
    async with copying.catalog.begin() as session:
        taken = await jobs.take_kept(session, tenant_id, worker_id=copying.ledger.worker_id)
        if not taken:
            raise NothingKept
        await audit.LOG.add(session, ctx, "backup.confirm", tenant_id, tenant_id=tenant_id)
    if (dropped := await drop_old(copying.ledger, taken)) < len(taken):
        raise DatabaseNotDropped(
            f"{len(taken) - dropped} of {len(taken)} old databases could not be dropped: another "
            "session may use them. Every serving process tries again until they are dropped."
        )
    return len(taken)


async def _suspend(ctx: OperationContext, copying: Copying, job: Job, tenant: Tenant) -> Tenant:
    """Suspend an active tenant, and note that in the job: both, or neither.

    So a tenant that an admin has suspended before stays suspended when the job ends.
    """
    async with copying.catalog.change(
        ctx.at(utc_now()), "tenant.update", tenant.id, tenant_id=tenant.id, changes=SUSPENDED
    ) as session:
        await note_event(session, copying.ledger, job, job_states.SUSPENDED)
        suspended = await moves.suspend(session, tenant)
        if suspended is None:
            raise TenantChanged
    return suspended


async def _swap(
    ctx: OperationContext, copying: Copying, job: Job, tenant: Tenant, *, revised: Revised
) -> Tenant:
    """Give the tenant the job's database, and let the job keep the old one: both, or neither."""
    assert job.server_name is not None
    assert job.database_name is not None
    changes: audit_log.Changes = []
    async with copying.catalog.change(
        ctx.at(utc_now()), "tenant.replace", tenant.id, tenant_id=tenant.id, changes=changes
    ) as session:
        locked = await jobs.lock(session, job.id, worker_id=copying.ledger.worker_id)
        if locked is None or locked.state != JobState.RUNNING:
            raise JobLost
        moved = await moves.move(
            session,
            tenant,
            server_name=job.server_name,
            database_name=job.database_name,
            revision=revised.revision,
            is_active=locked.has_suspended and revised.behind is None,
        )
        if moved is None:
            raise TenantChanged
        kept = (tenant.server_name, tenant.database_name)
        await finish(session, copying.ledger, job, kept=kept)
        changes += audit_log.changes_between(
            tenant, moved, "server_name", "database_name", "is_active"
        )
    await copying.databases.forget(tenant.id)
    return moved
