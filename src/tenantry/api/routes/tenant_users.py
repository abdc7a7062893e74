"""``/api/admin/tenants/{tenantId}/users``: the users of a customer, as admins manage them."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.catalog import tenants
from tenantry.schemas.base import Nothing, PageRequest
from tenantry.schemas.people import (
    CreateUserRequest,
    TenantUserPage,
    TenantUserProfile,
    UpdateUserRequest,
    given,
)
from tenantry.services import Services
from tenantry.tenant import people, users
from tenantry.tenant.databases import TenantDatabase


async def list_users(
    _ctx: AdminContext, services: Services, request: PageRequest, *, tenant_id: UUID
) -> TenantUserPage:
    """Tell of the users of a tenant."""
    database = await _open(services, tenant_id)
    return TenantUserPage.of_page(await users.page(database, request.window))


async def create_user(
    ctx: AdminContext, services: Services, request: CreateUserRequest, *, tenant_id: UUID
) -> TenantUserProfile:
    """Make a user of a tenant."""
    database = await _open(services, tenant_id)
    user = await people.create(
        ctx,
        database,
        services.passwords,
        email=request.email,
        full_name=request.full_name,
        password=request.password,
    )
    return TenantUserProfile.of(user)


async def update_user(
    ctx: AdminContext,
    services: Services,
    request: UpdateUserRequest,
    *,
    tenant_id: UUID,
    user_id: UUID,
) -> TenantUserProfile:
    """Change a user of a tenant."""
    database = await _open(services, tenant_id)
    user = await people.update(
        ctx,
        services.catalog,
        database,
        services.passwords,
        user_id,
        tenant_id=tenant_id,
        throttle=services.throttle,
        **given(request),
    )
    return TenantUserProfile.of(user)


async def delete_user(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, user_id: UUID
) -> None:
    """Delete a user of a tenant, and the McpTokens that act as that user."""
    database = await _open(services, tenant_id)
    await people.delete(ctx, services.catalog, database, tenant_id, user_id)


async def _open(services: Services, tenant_id: UUID) -> TenantDatabase:
    return await services.databases.open(await tenants.get(services.catalog, tenant_id))
