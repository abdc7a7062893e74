"""``/api/admin/drift``: tenants with another schema than their revision defines."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, endpoint
from tenantry.api.envelope import Reply
from tenantry.api.routes.jobs import queued, queues
from tenantry.catalog import drift, tenants
from tenantry.catalog.job_queue import DRIFT
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.drift import (
    CheckDriftRequest,
    DriftedTenantResponse,
    DriftPage,
    DriftPageRequest,
    TenantDriftResponse,
)
from tenantry.services import Services


@endpoint("GET", "/api/admin/drift", ADMIN)
async def list_drifted(
    _ctx: AdminContext, services: Services, request: DriftPageRequest
) -> DriftPage:
    """List the tenants that have drifted, with what differs."""
    page = await drift.page(services.catalog, request.window, where=request.where)
    return DriftPage.of_page(page)


@queues("/api/admin/drift/check", errors=[CONFLICT])
async def check_drift(ctx: AdminContext, services: Services, request: CheckDriftRequest) -> Reply:
    """Check every tenant at the head for drift: compare its schema with that of a new database."""
    return await queued(ctx, services, DRIFT, where=sent_members(request).get("where"))


@endpoint("GET", "/api/admin/tenants/{tenantId}/drift", ADMIN)
async def show_drift(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> TenantDriftResponse:
    """Show what has drifted of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    found = await drift.find(services.catalog, tenant.id)
    return TenantDriftResponse(None if found is None else DriftedTenantResponse.of(found))


@queues("/api/admin/tenants/{tenantId}/drift/check", errors=[CONFLICT])
async def check_tenant(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> Reply:
    """Check one tenant for drift."""
    return await queued(ctx, services, DRIFT, tenant_id=tenant_id)
