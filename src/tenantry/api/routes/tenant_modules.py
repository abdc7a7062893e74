"""``/api/tenant/modules``."""

from tenantry.access.principal import Scope
from tenantry.api.access_levels import TENANT
from tenantry.api.endpoints import endpoint
from tenantry.schemas.base import Nothing
from tenantry.schemas.tenants import ModuleList
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.entry import TenantContext


@endpoint("GET", "/api/tenant/modules", TENANT, scope=Scope.MODULES_READ)
async def list_active(ctx: TenantContext, _services: Services, _request: Nothing) -> ModuleList:
    """List the active modules."""
    return ModuleList(modules.active(ctx.tenant))
