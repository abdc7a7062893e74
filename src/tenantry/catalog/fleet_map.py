"""The map of the fleet: every tenant, in the order of creation."""

import functools
from datetime import datetime
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.run_tables import tenant_migration
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import is_ready
from tenantry.catalog.where import conditions_of
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement

MAP_MAX = 5_000


class MapTenant(msgspec.Struct, frozen=True):
    """A tenant on the map of the fleet.

    Attributes:
        drifted_at: When its schema was found to differ from that of its revision.
        cause: Why the latest attempt to migrate it failed; None if it did not.
    """

    id: UUID
    name: str
    server_name: str
    is_active: bool
    is_read_only: bool
    schema_revision: str | None
    failing_run_id: UUID | None
    drifted_at: datetime | None
    cause: str | None


_attempt = tenant_migration.c
_map = (
    sa.select(
        tenant.c.id,
        tenant.c.name,
        tenant.c.server_name,
        tenant.c.is_active,
        tenant.c.is_read_only,
        tenant.c.schema_revision,
        tenant.c.failing_run_id,
        tenant.c.drifted_at,
        _attempt.cause,
    )
    .select_from(
        tenant.outerjoin(
            tenant_migration,
            sa.and_(_attempt.run_id == tenant.c.failing_run_id, _attempt.tenant_id == tenant.c.id),
        )
    )
    .where(is_ready, tenant.c.id > sa.bindparam("after"))
    .order_by(tenant.c.id)
    .limit(LIMIT)
)


async def map_after(
    session: CatalogSession, after: UUID | None, *, where: str | None = None
) -> list[MapTenant]:
    """Return up to `MAP_MAX` tenants created after the one with the id *after*, in that order.

    With *where*, only those that it selects.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    return await session.fetch_all(_map_of(where), after=after or UUID(int=0), limit=MAP_MAX)


@functools.lru_cache(maxsize=64)
def _map_of(where: str | None) -> Statement[MapTenant]:
    return Statement(_map.where(*conditions_of(where)), MapTenant)
