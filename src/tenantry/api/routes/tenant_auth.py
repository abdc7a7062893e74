"""``/api/tenant/auth``."""

from tenantry.access.principal import Scope
from tenantry.api.access_levels import PERSON, SIGNED_IN, TENANT, TENANT_LOGIN, UNCONFIRMED_PERSON
from tenantry.api.endpoints import (
    CONFLICT,
    HASHING_SECONDS,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    endpoint,
)
from tenantry.kit.preconditions import Expected
from tenantry.schemas.base import Nothing
from tenantry.schemas.users import (
    ChangePasswordRequest,
    LoginRequest,
    LoginResult,
    LogoutRequest,
    RoleResponse,
    TenantUserProfile,
    UpdateProfileRequest,
)
from tenantry.services import Services
from tenantry.tenant import profile, sessions, users
from tenantry.tenant.entry import PersonContext, TenantContext, UnconfirmedContext


@endpoint(
    "POST",
    "/api/tenant/auth/login",
    TENANT_LOGIN,
    errors=[UNAUTHORIZED, TOO_MANY_REQUESTS],
    writes=False,  # it records the login in the catalog
    seconds_more=HASHING_SECONDS,
)
async def login(ctx: TenantContext, services: Services, request: LoginRequest) -> LoginResult:
    """Log in as a user of a tenant."""
    issued = await profile.login(
        ctx,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        tokens=services.tokens,
        email=request.email,
        password=request.password,
    )
    return LoginResult.of(issued)


@endpoint(
    "PUT",
    "/api/tenant/auth/change-password",
    PERSON,
    message="The password was changed.",
    errors=[NOT_FOUND, TOO_MANY_REQUESTS],
    scope=Scope.PROFILE_WRITE,
    seconds_more=HASHING_SECONDS,
)
async def change_password(
    ctx: PersonContext, services: Services, request: ChangePasswordRequest
) -> None:
    """Change your password."""
    await profile.change_password(
        ctx,
        services.catalog,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        current_password=request.current_password,
        new_password=request.new_password,
        keep_mcp_tokens=request.keep_mcp_tokens,
    )


@endpoint("POST", "/api/tenant/auth/logout", SIGNED_IN, message="You are logged out.")
async def logout(ctx: PersonContext, services: Services, request: LogoutRequest) -> None:
    """Log out as a user of a tenant."""
    await sessions.end(ctx, services.sign_ins, everywhere=request.everywhere)


@endpoint(
    "PUT",
    "/api/tenant/auth/profile",
    UNCONFIRMED_PERSON,
    errors=[NOT_FOUND, CONFLICT],
    scope=Scope.PROFILE_WRITE,
    adds=True,
    edits=TenantUserProfile,
)
async def update_profile(
    ctx: UnconfirmedContext,
    _services: Services,
    request: UpdateProfileRequest,
    *,
    expected: Expected,
) -> TenantUserProfile:
    """Change your profile."""
    user = await profile.update_profile(
        ctx, full_name=request.full_name, email=request.email, expected=expected
    )
    return TenantUserProfile.of(user)


@endpoint(
    "GET",
    "/api/tenant/auth/profile",
    PERSON,
    errors=[NOT_FOUND],
    scope=Scope.PROFILE_READ,
    edits=TenantUserProfile,
)
async def show_profile(
    ctx: PersonContext, _services: Services, _request: Nothing
) -> TenantUserProfile:
    """Show your profile."""
    return TenantUserProfile.of(await users.get(ctx.database, ctx.user_id))


@endpoint("GET", "/api/tenant/auth/role", TENANT, scope=Scope.PROFILE_READ)
async def show_role(ctx: TenantContext, _services: Services, _request: Nothing) -> RoleResponse:
    """Show your role in the tenant."""
    return RoleResponse(ctx.role)
