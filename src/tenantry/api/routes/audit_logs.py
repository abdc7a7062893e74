"""``/api/admin/audit-log`` and ``/api/admin/tenants/{tenantId}/audit-log``."""

import contextlib
from collections.abc import AsyncGenerator
from uuid import UUID

import msgspec

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import endpoint
from tenantry.api.streaming import Source
from tenantry.catalog import audit, tenants
from tenantry.db.audit_log import AuditEntry
from tenantry.schemas.audit import (
    AuditExportRequest,
    AuditPage,
    AuditRequest,
    TenantAuditExportRequest,
    TenantAuditRequest,
    json_lines,
)
from tenantry.schemas.base import JsonLines
from tenantry.services import Services
from tenantry.tenant import audit as tenant_audit
from tenantry.tenant.databases import TenantDatabase


@endpoint("GET", "/api/admin/audit-log", ADMIN)
async def list_audit(_ctx: AdminContext, services: Services, request: AuditRequest) -> AuditPage:
    """List entries of the service's audit log, newest first."""
    await services.sign_ins.write()
    return AuditPage.of_page(await audit.LOG.page(services.catalog, request.window, request.wanted))


@endpoint("GET", "/api/admin/audit-log/export", ADMIN, response=JsonLines, is_bare=True)
async def export_audit(
    _ctx: AdminContext, services: Services, request: AuditExportRequest
) -> Source:
    """Export the service's audit log as JSON lines, newest first."""
    await services.sign_ins.write()
    return _lines(audit.LOG.each(services.catalog, request.wanted))


@endpoint("GET", "/api/admin/tenants/{tenantId}/audit-log", ADMIN)
async def list_tenant_audit(
    _ctx: AdminContext, services: Services, request: TenantAuditRequest, *, tenant_id: UUID
) -> AuditPage:
    """List entries of a tenant's audit log, newest first."""
    database = await _open(services, tenant_id)
    wanted = msgspec.structs.replace(request.wanted, tenant_id=tenant_id)
    return AuditPage.of_page(await tenant_audit.LOG.page(database, request.window, wanted))


@endpoint(
    "GET", "/api/admin/tenants/{tenantId}/audit-log/export", ADMIN, response=JsonLines, is_bare=True
)
async def export_tenant_audit(
    _ctx: AdminContext, services: Services, request: TenantAuditExportRequest, *, tenant_id: UUID
) -> Source:
    """Export a tenant's audit log as JSON lines, newest first."""
    database = await _open(services, tenant_id)
    wanted = msgspec.structs.replace(request.wanted, tenant_id=tenant_id)
    return _lines(tenant_audit.LOG.each(database, wanted))


async def _lines(batches: AsyncGenerator[list[AuditEntry], None]) -> Source:
    async with contextlib.aclosing(batches):
        async for entries in batches:
            yield json_lines(entries)


async def _open(services: Services, tenant_id: UUID) -> TenantDatabase:
    return await services.databases.open(
        await tenants.get(services.catalog, tenant_id), writes=False
    )
