"""``/api/admin/admins``."""

from uuid import UUID

from tenantry.access import admins as access
from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, HASHING_SECONDS, creates, endpoint
from tenantry.catalog import admins
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.users import (
    AdminList,
    AdminResponse,
    CreateAdminRequest,
    UpdateAdminRequest,
)
from tenantry.services import Services


@endpoint("GET", "/api/admin/admins", ADMIN)
async def list_admins(_ctx: AdminContext, services: Services, _request: Nothing) -> AdminList:
    """List admins."""
    return AdminList.of_all(await admins.every(services.catalog))


@creates("/api/admin/admins", ADMIN, seconds_more=HASHING_SECONDS)
async def create_admin(
    ctx: AdminContext, services: Services, request: CreateAdminRequest
) -> AdminResponse:
    """Create an admin."""
    admin = await access.create(
        ctx, services.catalog, services.passwords, email=request.email, password=request.password
    )
    return AdminResponse.of(admin)


@endpoint(
    "PATCH", "/api/admin/admins/{adminId}", ADMIN, errors=[CONFLICT], seconds_more=HASHING_SECONDS
)
async def update_admin(
    ctx: AdminContext, services: Services, request: UpdateAdminRequest, *, admin_id: UUID
) -> AdminResponse:
    """Activate or deactivate an admin, or set the password."""
    admin = await access.update(
        ctx,
        services.catalog,
        services.passwords,
        admin_id,
        throttle=services.throttle,
        **sent_members(request),
    )
    return AdminResponse.of(admin)
