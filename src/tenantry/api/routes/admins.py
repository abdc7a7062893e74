"""``/api/admin/admins``."""

from uuid import UUID

from tenantry.access import admins as access
from tenantry.access.principal import AdminContext
from tenantry.catalog import admins
from tenantry.schemas.admins import (
    AdminList,
    AdminResponse,
    CreateAdminRequest,
    UpdateAdminRequest,
)
from tenantry.schemas.base import Nothing
from tenantry.schemas.people import given
from tenantry.services import Services


async def list_admins(_ctx: AdminContext, services: Services, _request: Nothing) -> AdminList:
    """Tell of the admins."""
    found = await admins.every(services.catalog)
    return AdminList.of_all(found)


async def create_admin(
    ctx: AdminContext, services: Services, request: CreateAdminRequest
) -> AdminResponse:
    """Make an admin."""
    admin = await access.create(
        ctx, services.catalog, services.passwords, email=request.email, password=request.password
    )
    return AdminResponse.of(admin)


async def update_admin(
    ctx: AdminContext, services: Services, request: UpdateAdminRequest, *, admin_id: UUID
) -> AdminResponse:
    """Switch an admin on or off, or set the password."""
    admin = await access.update(
        ctx,
        services.catalog,
        services.passwords,
        admin_id,
        throttle=services.throttle,
        **given(request),
    )
    return AdminResponse.of(admin)
