"""Restore a tenant from an archive: as a new one, as it was, or in place of a tenant.

The database is filled and checked before the catalog refers to it. So a restore that fails, or is
killed, changes nothing: the new database is dropped.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import msgspec

from tenantry.access import credentials
from tenantry.access.credentials import IssuedKey
from tenantry.backup import loading
from tenantry.backup.archive import ArchiveForeign, ArchiveReader
from tenantry.backup.jobs import Copying, JobLost, Progress, drop_old, finish, new_job, running
from tenantry.backup.loading import Revised
from tenantry.catalog import audit, deleted_tenants, job_cleanup, jobs, moves, records, tenants
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.jobs import Job
from tenantry.catalog.records import TenantRecord
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.db.sessions import retry_deadlock
from tenantry.fleet.deletion import DatabaseNotDropped
from tenantry.fleet.lifecycle import new_tenant
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.ids import new_id
from tenantry.tenant.modules import ALL_KEYS

SUSPENDED = [{"field": "isActive", "old": True, "new": False}]
"""The change in the audit log."""
Fill = Callable[[], Awaitable[None]]
"""Creates and fills the database of a new tenant."""


class TenantChanged(Conflict):
    """The tenant was suspended, activated, moved or deleted since. Nothing was changed."""


class TenantExists(Conflict):
    """The tenant of the archive exists: restore it in its place, or as a new tenant."""


class ArchiveOfOther(Conflict):
    """The archive is of another tenant: restore it as a new tenant."""


class TenantKept(Conflict):
    """The tenant of the archive is deleted and can be undeleted: undelete or purge it first."""


class NothingKept(NotFound):
    """No old database of this tenant is kept."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A restored or copied tenant.

    Attributes:
        key: Its new API key, if it is a new tenant; its secret is known only now.
        behind: Why it could not be migrated to the head, and so is suspended; None if it was.
    """

    tenant: Tenant
    key: IssuedKey | None
    behind: str | None


async def restore_as(
    ctx: OperationContext,
    copying: Copying,
    reader: ArchiveReader,
    *,
    name: str,
    server_name: str | None,
    progress: Progress,
    with_key: bool = True,
) -> Restored:
    """Restore an archive as a new tenant: another id, one new API key, no sessions.

    It is on the server *server_name*; None for one of the archive's engine. Without *with_key*, it
    has no API key: an admin adds one later.

    Raises:
        TenantNameInUse, BadText: The name cannot be used.
        UnknownServer, WrongEngine, NotATenant: See `backup.loading`.
        ArchiveDamaged, CopyDiffers, RoleTooPowerful: The archive is not used.
    """
    record = await loading.read_record(reader)
    loading.check_revisions(copying, reader.header)
    server = loading.server_of_engine(copying, reader.header.engine, server_name)
    # A module that this release does not have is left out.
    tenant = msgspec.structs.replace(
        new_tenant(ctx, name, sorted(record.modules & ALL_KEYS), server),
        requests_per_minute=record.requests_per_minute,
        size_bytes_max=record.size_bytes_max,
    )
    fill = _filling(copying, reader, tenant, progress)
    return await create_tenant(
        ctx, copying, tenant, fill, kind="restore", progress=progress, with_key=with_key
    )


async def restore_back(
    ctx: OperationContext,
    copying: Copying,
    reader: ArchiveReader,
    *,
    server_name: str | None,
    progress: Progress,
) -> Restored:
    """Bring a deleted tenant back: its id, its name, its API keys; no sessions.

    Raises:
        ArchiveForeign: The archive is of another installation: only `restore_as` accepts it.
        TenantExists, TenantKept: It exists, or is deleted and kept.
        TenantIdInUse: It is being restored or removed.
        CredentialsInUse: A key of it belongs to another tenant.
        TenantNameInUse, UnknownServer, WrongEngine, NotATenant, ArchiveDamaged, CopyDiffers: As
            for `restore_as`.
    """
    if reader.is_foreign:
        raise ArchiveForeign
    record = await loading.read_record(reader)
    loading.check_revisions(copying, reader.header)
    if await tenants.find(copying.catalog, record.id) is not None:
        raise TenantExists
    with suppress(DeletedTenantNotFound):
        await deleted_tenants.get(copying.catalog, record.id)
        raise TenantKept
    server = loading.server_of_engine(copying, reader.header.engine, server_name)
    tenant = msgspec.structs.replace(
        new_tenant(ctx, record.name, sorted(record.modules & ALL_KEYS), server),
        id=record.id,
        created_at=record.created_at,
        is_active=record.is_active,
        is_read_only=record.is_read_only,
        requests_per_minute=record.requests_per_minute,
        size_bytes_max=record.size_bytes_max,
    )
    fill = _filling(copying, reader, tenant, progress)
    return await create_tenant(
        ctx, copying, tenant, fill, kind="restore", progress=progress, record=record
    )


def _filling(copying: Copying, reader: ArchiveReader, tenant: Tenant, progress: Progress) -> Fill:
    server = copying.databases.server(tenant.server_name)
    return partial(loading.fill, copying, reader, server, tenant.database_name, progress)


async def create_tenant(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant,
    fill: Fill,
    *,
    kind: str,
    progress: Progress,
    record: TenantRecord | None = None,
    with_key: bool = True,
) -> Restored:
    """List a new tenant with a database that *fill* has created and filled, migrated to the head.

    *kind* is the action in the audit log: ``restore``, ``clone`` or ``adopt``. The tenant gets the
    credentials of *record*; without one, a new API key if *with_key*.
    """
    server = copying.databases.server(tenant.server_name)
    job = new_job(ctx, kind, progress, tenant=(tenant.id, tenant.name))
    async with running(copying, job, progress):
        try:
            # As in provisioning: if this process dies, another one drops the database.
            await tenants.add(copying.catalog, tenant, worker_id=copying.worker_id)
            await fill()
            revised = await loading.bring_to_head(copying, server, tenant.database_name)
            return await _publish(
                ctx, copying, job, tenant, revised=revised, record=record, with_key=with_key
            )
        except (tenants.TenantNameInUse, tenants.TenantIdInUse, tenants.DatabaseInUse):
            raise  # there is nothing to clear: a row with this id is another job's
        except BaseException:
            await copying.lifecycle.clear(tenant)
            raise


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
            for `restore_as`.
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
    job = new_job(
        ctx,
        "replace",
        progress,
        tenant=(tenant.id, tenant.name),
        database=(server_name, database_name),
    )
    async with running(copying, job, progress):
        if tenant.is_active:
            tenant = await retry_deadlock(partial(_suspend, ctx, copying, job, tenant))
        await loading.fill(copying, reader, server, database_name, progress)
        revised = await loading.bring_to_head(copying, server, database_name)
        swapping = partial(_swap, ctx, copying, job, tenant, revised=revised)
        replaced = await retry_deadlock(swapping)
    return Restored(tenant=replaced, key=None, behind=revised.behind)


async def confirm(ctx: OperationContext, copying: Copying, tenant_id: UUID) -> int:
    """Drop the old databases of a tenant; return how many.

    Raises:
        NothingKept: There is none.
        DatabaseNotDropped: Any process drops those that are left later.
    """
    async with copying.catalog.begin() as session:
        taken = await job_cleanup.take_kept(session, tenant_id, worker_id=copying.worker_id)
        if not taken:
            raise NothingKept
        await audit.LOG.add(session, ctx, "backup.confirm", tenant_id, tenant_id=tenant_id)
    if (dropped := await drop_old(copying, taken)) < len(taken):
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
        if await jobs.note_suspended(session, job.id, worker_id=copying.worker_id) is None:
            raise JobLost
        suspended = await moves.suspend(session, tenant)
        if suspended is None:
            raise TenantChanged
    return suspended


async def _publish(
    ctx: OperationContext,
    copying: Copying,
    job: Job,
    tenant: Tenant,
    *,
    revised: Revised,
    record: TenantRecord | None,
    with_key: bool,
) -> Restored:
    """Make a new tenant visible, with its credentials, and end the job: all, or nothing."""
    changes = audit_log.changes_between(None, tenant, "name", "server_name", "modules")
    async with copying.catalog.change(
        ctx.at(utc_now()), f"tenant.{job.kind}", tenant.id, tenant_id=tenant.id, changes=changes
    ) as session:
        ready = await tenants.set_ready(
            session, tenant.id, worker_id=copying.worker_id, revision=revised.revision
        )
        if ready is None:
            raise JobLost
        if revised.behind is not None:
            ready = await tenants.update(
                session, tenant.id, name=None, is_active=False, modules=None
            )
        key = None
        if record is not None:
            await records.add_credentials(session, record)
        elif with_key:
            key = await credentials.add_key(ctx, session, tenant.id, expires_at=None)
        await finish(session, copying, job)
    return Restored(tenant=ready, key=key, behind=revised.behind)


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
        locked = await jobs.lock(session, job.id, worker_id=copying.worker_id)
        if locked is None:
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
        await finish(session, copying, job, kept=kept)
        changes += audit_log.changes_between(
            tenant, moved, "server_name", "database_name", "is_active"
        )
    await copying.databases.forget(tenant.id)
    return moved
