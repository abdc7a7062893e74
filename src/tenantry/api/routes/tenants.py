"""``/api/admin/tenants``: the customers."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.catalog import tenants
from tenantry.fleet.lifecycle import Owner
from tenantry.schemas.base import Nothing
from tenantry.schemas.people import given
from tenantry.schemas.tenants import (
    CreatedTenantResponse,
    CreateTenantRequest,
    DeleteTenantRequest,
    TenantPage,
    TenantPageRequest,
    TenantResponse,
    UpdateTenantRequest,
)
from tenantry.services import Services


async def create_tenant(
    ctx: AdminContext, services: Services, request: CreateTenantRequest
) -> CreatedTenantResponse:
    """Make a tenant, with its database, its owner and its first key."""
    owner = request.owner
    made = await services.lifecycle.provision(
        ctx,
        name=request.name,
        owner=Owner(email=owner.email, full_name=owner.full_name, password=owner.password),
        module_keys=given(request).get("modules"),
    )
    return CreatedTenantResponse.of_provisioned(made)


async def list_tenants(
    _ctx: AdminContext, services: Services, request: TenantPageRequest
) -> TenantPage:
    """Tell of the tenants, by name."""
    page = await tenants.page(
        services.catalog,
        request.window,
        search=request.search,
        is_active=request.is_active,
        revision=request.revision,
    )
    return TenantPage.of_page(page)


async def show_tenant(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> TenantResponse:
    """Tell of one tenant."""
    return TenantResponse.of(await tenants.get(services.catalog, tenant_id))


async def update_tenant(
    ctx: AdminContext, services: Services, request: UpdateTenantRequest, *, tenant_id: UUID
) -> TenantResponse:
    """Change a tenant's name, modules, limit of requests, or whether it is active."""
    tenant = await tenants.get(services.catalog, tenant_id)
    asked = given(request)
    changed = await services.lifecycle.update(
        ctx,
        tenant,
        name=asked.get("name"),
        is_active=asked.get("is_active"),
        module_keys=asked.get("modules"),
        requests_per_minute=asked.get("requests_per_minute"),
    )
    return TenantResponse.of(changed)


async def delete_tenant(
    ctx: AdminContext, services: Services, request: DeleteTenantRequest, *, tenant_id: UUID
) -> None:
    """Delete an inactive tenant for ever."""
    tenant = await tenants.get(services.catalog, tenant_id)
    await services.lifecycle.delete(ctx, tenant, name=request.name)
