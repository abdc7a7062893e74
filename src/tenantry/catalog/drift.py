"""Drift: tenants with another schema than their revision defines.

What the last check has found stays until the next one, or until the tenant gets another database.
"""

import functools
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import Tenant, is_migrated, is_ready
from tenantry.catalog.where import conditions_of
from tenantry.db.copying.schema_listing import Difference
from tenantry.db.paging import Listing
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.pages import Page, Window

DIFFERENCES_MAX = 100
"""How many differences of a tenant are stored: the first ones."""


class Drifted(msgspec.Struct, frozen=True):
    """A tenant that has drifted, with up to `DIFFERENCES_MAX` differences."""

    id: UUID
    name: str
    server_name: str
    schema_revision: str | None
    drifted_at: datetime
    drift: list[dict[str, object]]

    @property
    def differences(self) -> list[Difference]:
        """What differs."""
        return msgspec.convert(self.drift, list[Difference])


class DriftedCount(msgspec.Struct, frozen=True):
    """How many tenants at a revision have drifted."""

    revision: str | None
    count: int


_c = tenant.c
_revision = sa.bindparam("revision", type_=sa.String)
_at = sa.bindparam("at", type_=_c.drifted_at.type)
# On the condition that it is as it was read: it may have been migrated, moved or restored since.
_SET = Statement[Any](
    sa.update(tenant)
    .values(
        drifted_at=_at,
        drift=sa.bindparam("found", type_=_c.drift.type),
    )
    .where(
        _c.id == sa.bindparam("tenant"),
        _c.schema_revision == _revision,
        _c.server_name == sa.bindparam("server"),
        _c.database_name == sa.bindparam("database"),
        sa.or_(_c.drifted_at.is_not(None), _at.is_not(None)),  # else there is nothing to write
    )
)
_has_drifted = sa.and_(is_ready, _c.drifted_at.is_not(None))
_FIND = Statement(
    sa.select(*columns_of(tenant, Drifted)).where(_c.id == sa.bindparam("tenant"), _has_drifted),
    Drifted,
)
# An expression: for the column itself, SQLite would read a million rows in the order of its index.
_revision_text = _c.schema_revision.concat("")
BY_REVISION = Statement(
    sa.select(_revision_text.label("revision"), sa.func.count().label("count"))
    .where(is_migrated, _c.failing_run_id.is_(None), _c.drifted_at.is_not(None))
    .group_by(_revision_text),
    DriftedCount,
)


async def store(
    session: CatalogSession,
    checked: Sequence[tuple[Tenant, Sequence[Difference]]],
    *,
    at: datetime,
) -> None:
    """Store what a check has found: tenants as they were read, each with what differs.

    A tenant without a difference has not drifted.
    """
    rows = [
        {
            "tenant": one.id,
            "revision": one.schema_revision,
            "server": one.server_name,
            "database": one.database_name,
            "at": at if found else None,
            "found": msgspec.to_builtins(found[:DIFFERENCES_MAX]) if found else None,
        }
        for one, found in sorted(checked, key=lambda pair: pair[0].id)
    ]
    await session.execute_many(_SET, rows)


async def page(
    session: CatalogSession, window: Window, *, where: str | None = None
) -> Page[Drifted]:
    """Return the tenants that have drifted, by name; with *where*, of those that it selects.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    return await _listing_of(where).page(session, window)


@functools.lru_cache(maxsize=64)
def _listing_of(where: str | None) -> Listing[Drifted]:
    every = sa.select(*columns_of(tenant, Drifted)).where(_has_drifted, *conditions_of(where))
    return Listing(every.order_by(_c.canonical_name), Drifted)


async def find(session: CatalogSession, tenant_id: UUID) -> Drifted | None:
    """Return what has drifted of a tenant; None if nothing has."""
    return await session.fetch_one(_FIND, tenant=tenant_id)


async def by_revision(session: CatalogSession) -> dict[str | None, int]:
    """Return how many active tenants have drifted, by revision.

    Read-only and failing ones are left out.
    """
    return {one.revision: one.count for one in await session.fetch_all(BY_REVISION)}
