"""Find a tenant, or an id, by what an operator types."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.cli import session
from tenantry.cli.session import Reading
from tenantry.kit.errors import NotFound
from tenantry.kit.ids import parse_id

if TYPE_CHECKING:
    from tenantry.services import Services
    from tenantry.settings import Settings


@asynccontextmanager
async def opened_tenant(
    id_or_name: str, settings: "Settings | None" = None
) -> "AsyncIterator[tuple[Services, Tenant]]":
    """Open the services, and find a tenant.

    Raises:
        TenantNotFound: There is no such tenant.
        Exception: As for `session.opened`.
    """
    async with session.opened(settings) as services:
        yield services, await find_tenant(services.catalog, id_or_name)


@asynccontextmanager
async def read_tenant(
    id_or_name: str, settings: "Settings | None" = None
) -> AsyncIterator[tuple[Reading, Tenant]]:
    """Open the catalog for a command that only reads, and find a tenant.

    Raises:
        TenantNotFound: There is no such tenant.
        Exception: As for `session.reading`.
    """
    async with session.reading(settings) as opened:
        yield opened, await find_tenant(opened.catalog, id_or_name)


async def find_tenant(catalog: Catalog, id_or_name: str) -> Tenant:
    """Return the tenant with this id or name.

    Raises:
        TenantNotFound: There is no such tenant.
    """
    tenant_id = parse_id(id_or_name)
    found = None if tenant_id is None else await tenants.find(catalog, tenant_id)
    return found or await tenants.get_by_name(catalog, id_or_name)


def read_id(text: str, missing: type[NotFound]) -> UUID:
    """Return the id in *text*, or raise the error *missing*."""
    found = parse_id(text)
    if found is None:
        raise missing
    return found
