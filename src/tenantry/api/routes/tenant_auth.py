"""``/api/tenant/auth``."""

from tenantry.schemas.base import Nothing
from tenantry.schemas.people import (
    ChangePasswordRequest,
    LoginRequest,
    LoginResult,
    LogoutRequest,
    TenantUserProfile,
    UpdateProfileRequest,
)
from tenantry.services import Services
from tenantry.tenant import accounts, profile, sessions, users
from tenantry.tenant.entry import Claimant, PersonContext, TenantContext


async def login(ctx: TenantContext, services: Services, request: LoginRequest) -> LoginResult:
    """Exchange a user's password for a token."""
    issued = await accounts.login(
        ctx,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        tokens=services.tokens,
        email=request.email,
        password=request.password,
    )
    return LoginResult.of(issued)


async def change_password(
    ctx: PersonContext, services: Services, request: ChangePasswordRequest
) -> None:
    """Change the caller's own password."""
    await accounts.change_password(
        ctx,
        services.catalog,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        current_password=request.current_password,
        new_password=request.new_password,
        keep_mcp_tokens=request.keep_mcp_tokens,
    )


async def logout(ctx: PersonContext, services: Services, request: LogoutRequest) -> None:
    """End the caller's session, or all of them."""
    await sessions.end(ctx, services.sign_ins, everywhere=request.everywhere)


async def update_profile(
    claimant: Claimant, _services: Services, request: UpdateProfileRequest
) -> TenantUserProfile:
    """Change the caller's own name and address."""
    user = await profile.update_profile(claimant, full_name=request.full_name, email=request.email)
    return TenantUserProfile.of(user)


async def show_profile(
    ctx: PersonContext, _services: Services, _request: Nothing
) -> TenantUserProfile:
    """Tell the caller's own profile."""
    return TenantUserProfile.of(await users.get(ctx.database, ctx.user_id))
