"""``/api/admin/deleted-tenants``: deleted tenants, which can be undeleted or purged."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, endpoint
from tenantry.catalog import deleted_tenants
from tenantry.schemas.base import PageRequest, sent_members
from tenantry.schemas.tenants import (
    DeletedTenantPage,
    PurgeTenantRequest,
    TenantResponse,
    UndeleteTenantRequest,
)
from tenantry.services import Services


@endpoint("GET", "/api/admin/deleted-tenants", ADMIN)
async def list_tenants(
    _ctx: AdminContext, services: Services, request: PageRequest
) -> DeletedTenantPage:
    """List deleted tenants, the last deleted first."""
    page = await deleted_tenants.page(services.catalog, request.window)
    return DeletedTenantPage.of_deleted(page, services.deletion.kept)


@endpoint("POST", "/api/admin/deleted-tenants/{tenantId}/undelete", ADMIN, errors=[CONFLICT])
async def undelete_tenant(
    ctx: AdminContext, services: Services, request: UndeleteTenantRequest, *, tenant_id: UUID
) -> TenantResponse:
    """Undo the deletion of a tenant, which is then suspended."""
    deleted = await deleted_tenants.get(services.catalog, tenant_id)
    name = sent_members(request).get("name")
    return TenantResponse.of(await services.deletion.undelete(ctx, deleted, name=name))


@endpoint(
    "DELETE",
    "/api/admin/deleted-tenants/{tenantId}",
    ADMIN,
    message="The tenant was purged.",
    seconds_more=None,
)
async def purge_tenant(
    ctx: AdminContext, services: Services, request: PurgeTenantRequest, *, tenant_id: UUID
) -> None:
    """Remove a deleted tenant and its database now; this cannot be undone."""
    deleted = await deleted_tenants.get(services.catalog, tenant_id)
    await services.deletion.purge(ctx, deleted, name=request.name)
