"""The fleet: every tenant on a map, and how many are at each revision."""

from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant, tenant_migration
from tenantry.catalog.tenants import TenantState, is_migrated
from tenantry.db.statements import Statement

MAP_MAX = 5_000


class RevisionCount(msgspec.Struct, frozen=True):
    """How many tenants were last seen at a revision, and for how many the last attempt failed."""

    revision: str | None
    count: int
    failing: int


class Others(msgspec.Struct, frozen=True):
    """The tenants that migration runs leave out; one that is both is suspended."""

    suspended: int
    read_only: int


class MapTenant(msgspec.Struct, frozen=True):
    """A tenant on the map of the fleet.

    Attributes:
        cause: Why the latest attempt to migrate it failed; None if it did not.
    """

    id: UUID
    name: str
    server_name: str
    is_active: bool
    is_read_only: bool
    schema_revision: str | None
    failing_run_id: UUID | None
    cause: str | None


_is_ready = tenant.c.state == TenantState.READY.value
_COUNT_BY_REVISION = Statement(
    sa.select(
        tenant.c.schema_revision.label("revision"),
        sa.func.count().label("count"),
        sa.func.count(tenant.c.failing_run_id).label("failing"),
    )
    .where(is_migrated)
    .group_by(tenant.c.schema_revision)
    .order_by(tenant.c.schema_revision),
    RevisionCount,
)
_COUNT_OTHERS = Statement(
    sa.select(
        sa.func.count(sa.case((~tenant.c.is_active, 1))).label("suspended"),
        sa.func.count(sa.case((tenant.c.is_active, 1))).label("read_only"),
    ).where(_is_ready, sa.not_(is_migrated)),
    Others,
)
_attempt = tenant_migration.c
_MAP = Statement(
    sa.select(
        tenant.c.id,
        tenant.c.name,
        tenant.c.server_name,
        tenant.c.is_active,
        tenant.c.is_read_only,
        tenant.c.schema_revision,
        tenant.c.failing_run_id,
        _attempt.cause,
    )
    .select_from(
        tenant.outerjoin(
            tenant_migration,
            sa.and_(_attempt.run_id == tenant.c.failing_run_id, _attempt.tenant_id == tenant.c.id),
        )
    )
    .where(_is_ready, tenant.c.id > sa.bindparam("after"))
    .order_by(tenant.c.id)
    .limit(sa.bindparam("limit", type_=sa.BigInteger)),
    MapTenant,
)


async def count_by_revision(session: CatalogSession) -> list[RevisionCount]:
    """Return where the databases of the active tenants were last seen, and how many there."""
    return await session.fetch_all(_COUNT_BY_REVISION)


async def count_others(session: CatalogSession) -> Others:
    """Return how many tenants migration runs leave out."""
    found = await session.fetch_one(_COUNT_OTHERS)
    assert found is not None
    return found


async def map_after(session: CatalogSession, after: UUID | None) -> list[MapTenant]:
    """Return up to `MAP_MAX` tenants created after the one with the id *after*, in that order."""
    return await session.fetch_all(_MAP, after=after or UUID(int=0), limit=MAP_MAX)
