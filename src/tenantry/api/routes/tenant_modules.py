"""``/api/tenant/modules``."""

from tenantry.schemas.base import Nothing
from tenantry.schemas.tenants import ModuleList
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.entry import TenantContext


async def list_active(ctx: TenantContext, _services: Services, _request: Nothing) -> ModuleList:
    """Tell which modules are on."""
    return ModuleList(modules.active(ctx.tenant))
