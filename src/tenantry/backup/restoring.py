"""Restore a tenant from an archive: as a new one, or as it was.

The database is filled and checked before the catalog refers to it. So a restore that fails, or is
killed, changes nothing: the new database is dropped.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from tenantry.access import credentials
from tenantry.access.credentials import IssuedKey
from tenantry.backup import loading
from tenantry.backup.archive import ArchiveForeign, ArchiveReader
from tenantry.backup.copying import Copying
from tenantry.catalog import deleted_tenants, records, tenants
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.job_queue import RESTORE, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.records import TenantRecord
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.fleet.lifecycle import checked_name, new_tenant
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.tenant.modules import ALL_KEYS
from tenantry.work.ledger import JobLost, finish, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running

Fill = Callable[[], Awaitable[int | None]]
"""Creates and fills the database of a new tenant; returns how many schedules it has removed."""
_KEPT = ("id", "created_at", "is_active", "is_read_only")


class TenantExists(Conflict):
    """The tenant of the archive exists: restore it in its place, or as a new tenant."""


class TenantKept(Conflict):
    """The tenant of the archive is deleted and can be undeleted: undelete or purge it first."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A restored or copied tenant.

    Attributes:
        key: Its new API key, if it is a new tenant; its secret is known only now.
        behind: Why it could not be migrated to the head, and so is suspended; None if it was.
        schedules_removed: The number of posts whose schedule a clone has not.
    """

    tenant: Tenant
    key: IssuedKey | None
    behind: str | None
    schedules_removed: int = 0


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Return a queued restore with its tenant: a new one with a name, or that of its archive.

    Raises:
        NotATenant: The archive is of the catalog.
        BadText, UnknownServer: A rule is broken.
        ArchiveNotFound, ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
        S3Missing, S3Unavailable: The target cannot be read.
    """
    header = await loading.tenant_header(copying, options)
    loading.check_server(copying, options.server_name)
    if options.name is not None:
        return msgspec.structs.replace(job, tenant_name=checked_name(options.name))
    return msgspec.structs.replace(job, tenant_id=header.tenant_id, tenant_name=header.tenant_name)


async def run(
    copying: Copying, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
) -> None:
    """Restore the archive of a queued job. A new API key could not be shown to the admin."""
    async with copying.archives.reading(options.archive or "") as reader:
        await restore(
            ctx,
            copying,
            reader,
            name=options.name,
            server_name=options.server_name,
            progress=progress,
            with_key=False,
        )


async def restore(
    ctx: OperationContext,
    copying: Copying,
    reader: ArchiveReader,
    *,
    name: str | None,
    server_name: str | None,
    progress: Progress,
    with_key: bool = True,
) -> Restored:
    """Restore an archive as a new tenant with this *name*, or bring a deleted tenant back.

    A new tenant has another id, and one new API key if *with_key*: without, an admin adds one
    later. A deleted tenant gets its id, its name and its API keys. Sessions end. The tenant is on
    the server *server_name*; None for one of the archive's engine.

    Raises:
        ArchiveForeign: The archive is of another installation: only a new tenant is made of it.
        TenantExists, TenantKept: The deleted tenant exists, or is kept.
        TenantIdInUse: It is being restored or removed.
        CredentialsInUse: A key of it belongs to another tenant.
        TenantNameInUse, BadText: The name cannot be used.
        UnknownServer, WrongEngine, NotATenant: See `backup.loading`.
        ArchiveDamaged, CopyDiffers, RoleTooPowerful: The archive is not used.
    """
    if name is None and reader.is_foreign:
        raise ArchiveForeign
    record = await loading.read_record(reader)
    loading.check_revisions(copying, reader.header)
    if name is None:
        if await tenants.find(copying.catalog, record.id) is not None:
            raise TenantExists
        with suppress(DeletedTenantNotFound):
            await deleted_tenants.get(copying.catalog, record.id)
            raise TenantKept
    server_name = loading.server_of_engine(copying, reader.header.engine, server_name)
    # A module that this release does not have is left out.
    listed_as = record.name if name is None else name
    tenant = msgspec.structs.replace(
        new_tenant(ctx, listed_as, sorted(record.modules & ALL_KEYS), server_name),
        requests_per_minute=record.requests_per_minute,
        size_bytes_max=record.size_bytes_max,
    )
    if name is None:
        kept = {one: getattr(record, one) for one in _KEPT}
        tenant = msgspec.structs.replace(tenant, **kept)
    server = copying.databases.server(server_name)
    return await create_tenant(
        ctx,
        copying,
        tenant,
        partial(loading.fill, copying, reader, server, tenant.database_name, progress),
        kind=RESTORE,
        progress=progress,
        record=record if name is None else None,
        with_key=with_key,
    )


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
    job = new_job(ctx, kind, progress, new=tenant)
    async with running(copying.ledger, job, progress, tenant=tenant):
        schedules_removed = await fill() or 0
        revised = await loading.bring_to_head(copying, server, tenant.database_name)
        changes = audit_log.changes_between(None, tenant, "name", "server_name", "modules")
        async with copying.catalog.change(
            ctx.at(utc_now()), f"tenant.{job.kind}", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            await finish(session, copying.ledger, job)
            ready = await tenants.set_ready(
                session, tenant.id, worker_id=copying.ledger.worker_id, revision=revised.revision
            )
            if ready is None:
                raise JobLost
            if revised.behind is not None:
                ready = await tenants.update(session, tenant.id, is_active=False)
            key = None
            if record is not None:
                await records.add_credentials(session, record)
            elif with_key:
                key = await credentials.add_key(ctx, session, tenant.id, expires_at=None)
    return Restored(
        tenant=ready, key=key, behind=revised.behind, schedules_removed=schedules_removed
    )
