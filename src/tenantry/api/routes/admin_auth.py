"""``/api/admin/auth``."""

from tenantry.access import admins
from tenantry.access.principal import AdminContext
from tenantry.kit.context import OperationContext
from tenantry.schemas.people import LoginRequest, LoginResult, LogoutRequest
from tenantry.services import Services


async def login(ctx: OperationContext, services: Services, request: LoginRequest) -> LoginResult:
    """Exchange an admin's password for a token."""
    issued = await admins.login(
        ctx,
        services.catalog,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        tokens=services.tokens,
        email=request.email,
        password=request.password,
    )
    return LoginResult.of(issued)


async def logout(ctx: AdminContext, services: Services, request: LogoutRequest) -> None:
    """End the caller's session, or all of them."""
    await admins.logout(ctx, services.catalog, everywhere=request.everywhere)
