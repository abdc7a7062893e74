"""``/api/admin/auth``."""

from tenantry.access import admins
from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN, OPEN
from tenantry.api.endpoints import (
    CONFLICT,
    HASHING_SECONDS,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    endpoint,
)
from tenantry.kit.context import OperationContext
from tenantry.schemas.base import Nothing
from tenantry.schemas.users import LoginRequest, LoginResult, LogoutRequest
from tenantry.services import Services


@endpoint(
    "POST",
    "/api/admin/auth/login",
    OPEN,
    errors=[UNAUTHORIZED, TOO_MANY_REQUESTS],
    seconds_more=HASHING_SECONDS,
)
async def login(ctx: OperationContext, services: Services, request: LoginRequest) -> LoginResult:
    """Log in as an admin."""
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


@endpoint("POST", "/api/admin/auth/renew", ADMIN, errors=[CONFLICT])
async def renew(ctx: AdminContext, services: Services, _request: Nothing) -> LoginResult:
    """Renew the session: a token that expires later, until 12 hours after the login."""
    return LoginResult.of(await admins.renew(ctx, services.tokens))


@endpoint("POST", "/api/admin/auth/logout", ADMIN, message="You are logged out.")
async def logout(ctx: AdminContext, services: Services, request: LogoutRequest) -> None:
    """Log out as an admin."""
    await admins.logout(
        ctx, services.catalog, everywhere=request.everywhere, lifetime=services.tokens.lifetime
    )
