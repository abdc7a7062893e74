"""Backups, restores, copies and moves: each request queues a durable job, and does not wait for it.

Archives are read and written only in the target that the settings name. SQL that anonymises a
copy is not accepted over HTTP: it would run with the privileges of Tenantry's database role.
"""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import ACCEPTED, CONFLICT, NOT_FOUND, endpoint
from tenantry.api.envelope import Reply
from tenantry.api.routes.jobs import queued, queues
from tenantry.backup import moving, replacing
from tenantry.catalog import job_queue
from tenantry.catalog.job_queue import BACKUP, CLONE, MOVE, PRUNE, REPLACE, RESTORE, VERIFY
from tenantry.schemas.backups import (
    ArchivePage,
    ArchivePageRequest,
    BackUpRequest,
    BackupStatusResponse,
    CloneTenantRequest,
    MoveTenantRequest,
    MoveTenantsRequest,
    PruneArchivesRequest,
    QueuedJobs,
    ReplaceTenantRequest,
    RestoreArchiveRequest,
    VerifyArchiveRequest,
)
from tenantry.schemas.base import Nothing, sent_members
from tenantry.services import Services

# More time than other requests have: for storage in the network, and for 100,000 rows of jobs.
TARGET_SECONDS = 30.0


@endpoint("POST", "/api/admin/backups", ADMIN, status=ACCEPTED, seconds_more=TARGET_SECONDS)
async def back_up_tenants(
    ctx: AdminContext, services: Services, request: BackUpRequest
) -> QueuedJobs:
    """Back up tenants; by default all of them, and the catalog."""
    sent = sent_members(request)
    return QueuedJobs(
        await services.queue.back_up(ctx, sent.get("tenant_ids"), where=sent.get("where"))
    )


@endpoint("GET", "/api/admin/backups", ADMIN)
async def show_backups(
    _ctx: AdminContext, services: Services, _request: Nothing
) -> BackupStatusResponse:
    """Show which customer was backed up the longest ago, and how many were not."""
    return BackupStatusResponse.of_oldest(await job_queue.oldest_backup(services.catalog))


@endpoint("GET", "/api/admin/archives", ADMIN, seconds_more=TARGET_SECONDS)
async def list_archives(
    _ctx: AdminContext, services: Services, request: ArchivePageRequest
) -> ArchivePage:
    """List archives, the newest first."""
    archives = services.copying.archives
    return ArchivePage.of_page(await archives.page(request.window, search=request.search))


@queues("/api/admin/archives/verify", errors=[NOT_FOUND, CONFLICT], seconds_more=TARGET_SECONDS)
async def verify_archive(
    ctx: AdminContext, services: Services, request: VerifyArchiveRequest
) -> Reply:
    """Verify an archive: restore it into a scratch database."""
    return await queued(ctx, services, VERIFY, archive=request.archive)


@queues("/api/admin/archives/prune", errors=[CONFLICT])
async def prune_archives(
    ctx: AdminContext, services: Services, request: PruneArchivesRequest
) -> Reply:
    """Remove old archives; damaged and incomplete ones, and those of other keys, are kept."""
    return await queued(
        ctx, services, PRUNE, keep_days=request.keep_days, keep_last=request.keep_last
    )


@queues("/api/admin/archives/restore", errors=[NOT_FOUND, CONFLICT], seconds_more=TARGET_SECONDS)
async def restore_archive(
    ctx: AdminContext, services: Services, request: RestoreArchiveRequest
) -> Reply:
    """Restore an archive as a new tenant, or a tenant that no longer exists."""
    sent = sent_members(request)
    return await queued(
        ctx,
        services,
        RESTORE,
        archive=request.archive,
        name=sent.get("name"),
        server_name=sent.get("server"),
    )


@queues("/api/admin/tenants/{tenantId}/backup")
async def back_up_tenant(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> Reply:
    """Back up a tenant; one that is queued already is not queued again."""
    return await queued(ctx, services, BACKUP, tenant_id=tenant_id)


@queues("/api/admin/tenants/{tenantId}/restore", errors=[CONFLICT], seconds_more=TARGET_SECONDS)
async def restore_tenant(
    ctx: AdminContext, services: Services, request: ReplaceTenantRequest, *, tenant_id: UUID
) -> Reply:
    """Restore an archive in place of a tenant, which is suspended for that time."""
    return await queued(
        ctx, services, REPLACE, tenant_id=tenant_id, archive=request.archive, name=request.name
    )


@endpoint(
    "POST",
    "/api/admin/tenants/{tenantId}/confirm-restore",
    ADMIN,
    message="The old database was dropped.",
    seconds_more=None,
)
async def confirm_restore(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> None:
    """Drop the old database of a tenant that was restored in its place."""
    await replacing.confirm(ctx, services.copying, tenant_id)


@queues("/api/admin/tenants/{tenantId}/clone", errors=[CONFLICT])
async def clone_tenant(
    ctx: AdminContext, services: Services, request: CloneTenantRequest, *, tenant_id: UUID
) -> Reply:
    """Copy a tenant to a new one."""
    server_name = sent_members(request).get("server")
    return await queued(
        ctx, services, CLONE, tenant_id=tenant_id, name=request.name, server_name=server_name
    )


@queues("/api/admin/tenants/{tenantId}/move", errors=[CONFLICT])
async def move_tenant(
    ctx: AdminContext, services: Services, request: MoveTenantRequest, *, tenant_id: UUID
) -> Reply:
    """Move a tenant to another tenant server; it is read-only for that time."""
    return await queued(ctx, services, MOVE, tenant_id=tenant_id, server_name=request.server)


@endpoint(
    "POST",
    "/api/admin/tenants/move-all",
    ADMIN,
    status=ACCEPTED,
    errors=[CONFLICT],
    seconds_more=TARGET_SECONDS,
)
async def move_tenants(
    ctx: AdminContext, services: Services, request: MoveTenantsRequest
) -> QueuedJobs:
    """Move tenants to another tenant server: every one of a server, or those of an expression."""
    sent = sent_members(request)
    from_server, where = sent.get("from_server"), sent.get("where")
    moving.check_servers(services.copying, from_server, request.to_server)
    return QueuedJobs(
        await services.queue.move_all(
            ctx, from_server=from_server, to_server=request.to_server, where=where
        )
    )
