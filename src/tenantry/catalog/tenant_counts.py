"""How many tenants there are: by server, state, revision and so on, without counting their rows.

Triggers of the table `tenant` keep the counts, in the transaction of each change.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession, fetch_row
from tenantry.catalog.tables import tenant, tenant_count, tenant_name
from tenantry.catalog.tenants import TenantState, is_ready
from tenantry.db.statements import Count, Statement

MERGED_FROM = 1_000
"""From this number of rows on, `merge` sums up the rows with the same values."""
REBUILD = (
    "DELETE FROM tenant_count; INSERT INTO tenant_count SELECT server_name, state, is_active, "
    "is_read_only, schema_revision, failing_run_id IS NOT NULL, count(*) FROM tenant "
    "GROUP BY 1, 2, 3, 4, 5, 6; DELETE FROM tenant_name; INSERT INTO tenant_name (tenant_id, "
    "canonical_name) SELECT id, canonical_name FROM tenant WHERE state = 'ready'"
)
"""Statements that correct what `count_wrong` finds."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which tenants are counted or listed: those with every value that is not None.

    Attributes:
        is_active: Only active, or only suspended ones.
        is_read_only: Only read-only, or only writable ones.
        schema_revision: Only those with this last seen revision.
        server_name: Only those on this tenant server.
        is_failing: Only those that failed in their latest attempt, or only the others.
    """

    is_active: bool | None = None
    is_read_only: bool | None = None
    schema_revision: str | None = None
    server_name: str | None = None
    is_failing: bool | None = None


ANY = Filters()


class RevisionCount(msgspec.Struct, frozen=True):
    """How many tenants were last seen at a revision, and for how many the last attempt failed."""

    revision: str | None
    count: int
    failing: int


class Others(msgspec.Struct, frozen=True):
    """The tenants that migration runs leave out; one that is both is suspended."""

    suspended: int
    read_only: int


class ServerCount(msgspec.Struct, frozen=True):
    """How many databases of tenants are on a server; those of deleted tenants included."""

    server_name: str
    count: int


_c = tenant_count.c
_is_ready = _c.state == TenantState.READY.value
_is_migrated = sa.and_(_is_ready, _c.is_active, ~_c.is_read_only)


def _sum(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    """Return the number of tenants for which all *conditions* are true."""
    counted = sa.case((sa.and_(*conditions), _c.tenants), else_=0) if conditions else _c.tenants
    return sa.cast(sa.func.coalesce(sa.func.sum(counted), 0), sa.BigInteger)


def _is(name: str) -> sa.ColumnElement[bool]:
    wanted = sa.bindparam(name, type_=_c[name].type)
    return sa.or_(wanted.is_(None), _c[name] == wanted)


_TOTAL = Statement(
    sa.select(_sum().label("count")).where(
        _c.state == sa.bindparam("state", type_=sa.String), *map(_is, Filters.__struct_fields__)
    ),
    Count,
)
_BY_REVISION = Statement(
    sa.select(
        _c.schema_revision.label("revision"),
        _sum().label("count"),
        _sum(_c.is_failing).label("failing"),
    )
    .where(_is_migrated)
    .group_by(_c.schema_revision)
    .having(_sum() > 0)
    .order_by(_c.schema_revision),
    RevisionCount,
)
_OTHERS = Statement(
    sa.select(_sum(~_c.is_active).label("suspended"), _sum(_c.is_active).label("read_only")).where(
        _is_ready, sa.not_(_is_migrated)
    ),
    Others,
)
_head = sa.bindparam("head", type_=sa.String)
_BEHIND = Statement(
    sa.select(_sum().label("count")).where(
        _is_ready,
        _c.is_active,  # a read-only one can be in a run: see `catalog.plans`
        sa.or_(_c.schema_revision.is_distinct_from(_head), _c.is_failing),
    ),
    Count,
)
_BY_SERVER = Statement(
    sa.select(_c.server_name, _sum().label("count")).group_by(_c.server_name), ServerCount
)
_NOTHING = sa.delete(tenant_count).where(_c.tenants == 0)
_rows = [column for column in _c if column is not _c.tenants]
_taken = sa.delete(tenant_count).returning(*_c).cte("taken")
_sums = sa.select(
    *(_taken.c[column.name] for column in _rows), sa.func.sum(_taken.c.tenants)
).group_by(*(_taken.c[column.name] for column in _rows))
_COUNT_ROWS = Statement(sa.select(sa.func.count().label("count")).select_from(tenant_count), Count)
_of_both = sa.union_all(
    sa.select(*_c),
    sa.select(
        *(tenant.c[column.name] for column in _rows if column is not _c.is_failing),
        tenant.c.failing_run_id.is_not(None),
        sa.literal_column("-1", sa.BigInteger),
    ),
).subquery("of_both")
_wrong_counts = (
    sa.select(_of_both.c.state)
    .group_by(*(_of_both.c[column.name] for column in _rows))
    .having(sa.func.sum(_of_both.c.tenants) != 0)
    .subquery("wrong_counts")
)
_is_named = sa.and_(
    tenant_name.c.tenant_id == tenant.c.id, tenant_name.c.canonical_name == tenant.c.canonical_name
)


def _number(rows: sa.FromClause, *conditions: sa.ColumnElement[bool]) -> Any:
    return sa.select(sa.func.count()).select_from(rows).where(*conditions).scalar_subquery()


# In one statement, so in one snapshot.
_COUNT_WRONG = Statement(
    sa.select(
        (
            _number(_wrong_counts)
            + _number(tenant_name)
            + _number(tenant, is_ready)
            - 2 * _number(tenant.join(tenant_name, _is_named), is_ready)
        ).label("count")
    ),
    Count,
)
# SQLite has no such statement, and needs none: it changes the counts in place.
_MERGE = Statement[Any](
    sa.insert(tenant_count).from_select(
        [column.name for column in _c], _sums.having(sa.func.sum(_taken.c.tenants) != 0)
    ),
    on_sqlite=(_NOTHING, _NOTHING),
)


async def total(
    session: CatalogSession, filters: Filters = ANY, *, state: TenantState = TenantState.READY
) -> int:
    """Return the number of tenants in *state* that the *filters* select."""
    values = msgspec.structs.asdict(filters)
    return (await fetch_row(session, _TOTAL, state=state.value, **values)).count


async def by_revision(session: CatalogSession) -> list[RevisionCount]:
    """Return where the databases of the active tenants were last seen, and how many there."""
    return await session.fetch_all(_BY_REVISION)


async def others(session: CatalogSession) -> Others:
    """Return how many tenants migration runs leave out."""
    return await fetch_row(session, _OTHERS)


async def behind(session: CatalogSession, head: str) -> int:
    """Return how many active tenants are not at *head*, or are failing."""
    return (await fetch_row(session, _BEHIND, head=head)).count


async def by_server(session: CatalogSession) -> dict[str, int]:
    """Return how many databases of tenants are on each server, by its name."""
    return {one.server_name: one.count for one in await session.fetch_all(_BY_SERVER)}


async def merge(catalog: CatalogSession, *, rows_min: int = MERGED_FROM) -> None:
    """Sum up the rows with the same values, if there are at least *rows_min*.

    Two processes may do so at the same time: each row is taken by one of them.
    """
    if (await fetch_row(catalog, _COUNT_ROWS)).count >= rows_min:
        await catalog.execute(_MERGE)


async def count_wrong(session: CatalogSession) -> int:
    """Return how many counts, and names of the list, are not those of the tenants.

    It reads every tenant: 1,000,000 take some seconds.
    """
    return (await fetch_row(session, _COUNT_WRONG)).count
