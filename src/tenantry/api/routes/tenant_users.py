"""``/api/admin/tenants/{tenantId}/users``: the users of a tenant, for admins."""

from uuid import UUID

import msgspec

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, HASHING_SECONDS, creates, endpoint
from tenantry.catalog import tenants
from tenantry.kit.preconditions import Expected
from tenantry.schemas.base import Nothing, PageRequest, sent_members
from tenantry.schemas.users import (
    CreateTenantUserRequest,
    TenantUserPage,
    TenantUserResponse,
    UpdateUserRequest,
)
from tenantry.services import Services
from tenantry.tenant import users
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.users import NewUser


@endpoint("GET", "/api/admin/tenants/{tenantId}/users", ADMIN)
async def list_users(
    _ctx: AdminContext, services: Services, request: PageRequest, *, tenant_id: UUID
) -> TenantUserPage:
    """List the users of a tenant."""
    database = await _open(services, tenant_id, writes=False)
    return TenantUserPage.of_page(await users.page(database, request.window))


@creates("/api/admin/tenants/{tenantId}/users", ADMIN, seconds_more=HASHING_SECONDS)
async def create_user(
    ctx: AdminContext, services: Services, request: CreateTenantUserRequest, *, tenant_id: UUID
) -> TenantUserResponse:
    """Create a user of a tenant."""
    database = await _open(services, tenant_id, writes=True)
    new = NewUser(**msgspec.structs.asdict(request))
    return TenantUserResponse.of(await users.create(ctx, database, services.passwords, new))


@endpoint("GET", "/api/admin/tenants/{tenantId}/users/{userId}", ADMIN, edits=TenantUserResponse)
async def show_user(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, user_id: UUID
) -> TenantUserResponse:
    """Show a user of a tenant."""
    database = await _open(services, tenant_id, writes=False)
    return TenantUserResponse.of(await users.get(database, user_id))


@endpoint(
    "PATCH",
    "/api/admin/tenants/{tenantId}/users/{userId}",
    ADMIN,
    errors=[CONFLICT],
    seconds_more=HASHING_SECONDS,
    edits=TenantUserResponse,
)
async def update_user(
    ctx: AdminContext,
    services: Services,
    request: UpdateUserRequest,
    *,
    tenant_id: UUID,
    user_id: UUID,
    expected: Expected,
) -> TenantUserResponse:
    """Change a user of a tenant."""
    database = await _open(services, tenant_id, writes=True)
    user = await users.update(
        ctx,
        services.catalog,
        database,
        services.passwords,
        user_id,
        tenant_id=tenant_id,
        throttle=services.throttle,
        expected=expected,
        **sent_members(request),
    )
    return TenantUserResponse.of(user)


@endpoint(
    "DELETE",
    "/api/admin/tenants/{tenantId}/users/{userId}",
    ADMIN,
    message="The user was deleted.",
    errors=[CONFLICT],
    edits=TenantUserResponse,
)
async def delete_user(
    ctx: AdminContext,
    services: Services,
    _request: Nothing,
    *,
    tenant_id: UUID,
    user_id: UUID,
    expected: Expected,
) -> None:
    """Delete a user of a tenant."""
    database = await _open(services, tenant_id, writes=True)
    await users.delete(ctx, services.catalog, database, tenant_id, user_id, expected=expected)


async def _open(services: Services, tenant_id: UUID, *, writes: bool) -> TenantDatabase:
    tenant = await tenants.get(services.catalog, tenant_id)
    return await services.databases.open(tenant, writes=writes)
