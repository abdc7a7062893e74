"""``/api/tenant/users``: the users of a tenant, for its owners."""

from uuid import UUID

import msgspec

from tenantry.api.access_levels import OWNER
from tenantry.api.endpoints import CONFLICT, HASHING_SECONDS, creates, endpoint
from tenantry.kit.errors import Invalid
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
from tenantry.tenant.entry import PersonContext
from tenantry.tenant.users import NewUser


class OwnPassword(Invalid):
    """Change your own password with `PUT /api/tenant/auth/change-password`."""


@endpoint("GET", "/api/tenant/users", OWNER)
async def list_users(
    ctx: PersonContext, _services: Services, request: PageRequest
) -> TenantUserPage:
    """List the users of your tenant."""
    return TenantUserPage.of_page(await users.page(ctx.database, request.window))


@creates("/api/tenant/users", OWNER, adds=True, seconds_more=HASHING_SECONDS)
async def create_user(
    ctx: PersonContext, services: Services, request: CreateTenantUserRequest
) -> TenantUserResponse:
    """Create a user of your tenant."""
    new = NewUser(**msgspec.structs.asdict(request))
    return TenantUserResponse.of(await users.create(ctx, ctx.database, services.passwords, new))


@endpoint("GET", "/api/tenant/users/{userId}", OWNER, edits=TenantUserResponse)
async def show_user(
    ctx: PersonContext, _services: Services, _request: Nothing, *, user_id: UUID
) -> TenantUserResponse:
    """Show a user of your tenant."""
    return TenantUserResponse.of(await users.get(ctx.database, user_id))


@endpoint(
    "PATCH",
    "/api/tenant/users/{userId}",
    OWNER,
    errors=[CONFLICT],
    seconds_more=HASHING_SECONDS,
    edits=TenantUserResponse,
)
async def update_user(
    ctx: PersonContext,
    services: Services,
    request: UpdateUserRequest,
    *,
    user_id: UUID,
    expected: Expected,
) -> TenantUserResponse:
    """Change a user of your tenant: name, address, role, activity, or password."""
    changes = sent_members(request)
    # A session alone, perhaps a stolen one, is no proof of the password.
    if "password" in changes and user_id == ctx.user_id:
        raise OwnPassword
    user = await users.update(
        ctx,
        services.catalog,
        ctx.database,
        services.passwords,
        user_id,
        tenant_id=ctx.tenant.id,
        throttle=services.throttle,
        expected=expected,
        **changes,
    )
    return TenantUserResponse.of(user)


@endpoint(
    "DELETE",
    "/api/tenant/users/{userId}",
    OWNER,
    message="The user was deleted.",
    errors=[CONFLICT],
    edits=TenantUserResponse,
)
async def delete_user(
    ctx: PersonContext, services: Services, _request: Nothing, *, user_id: UUID, expected: Expected
) -> None:
    """Delete a user of your tenant."""
    await users.delete(
        ctx, services.catalog, ctx.database, ctx.tenant.id, user_id, expected=expected
    )
