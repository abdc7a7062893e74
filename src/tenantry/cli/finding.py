"""Find a tenant by what an operator types."""

from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.kit.ids import parse_id


async def find_tenant(catalog: Catalog, id_or_name: str) -> Tenant:
    """Return the tenant with this id or name.

    Raises:
        TenantNotFound: There is no such tenant.
    """
    tenant_id = parse_id(id_or_name)
    found = None if tenant_id is None else await tenants.find(catalog, tenant_id)
    return found or await tenants.get_by_name(catalog, id_or_name)
