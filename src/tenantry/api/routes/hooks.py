"""``/api/admin/hooks``: the targets of notifications, which the settings alone define."""

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import endpoint
from tenantry.schemas.base import Nothing
from tenantry.schemas.hooks import HookList
from tenantry.services import Services
from tenantry.work.hook_status import status_of


@endpoint("GET", "/api/admin/hooks", ADMIN)
async def list_hooks(_ctx: AdminContext, services: Services, _request: Nothing) -> HookList:
    """List the targets of notifications, with the last attempt to deliver something to each."""
    return HookList.of_statuses(await status_of(services.catalog, services.settings.hooks))
