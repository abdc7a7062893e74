"""How long tenants took in earlier runs, by the revisions that were applied."""

from collections.abc import Collection
from datetime import datetime, timedelta
from statistics import median

import msgspec
import sqlalchemy as sa

from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import MigrationState
from tenantry.catalog.session import CatalogSession
from tenantry.db.statements import Statement

RUNS_READ_MAX = 5
TENANTS_READ_MAX = 200
PATHS_READ_MAX = 20
MILLISECOND = timedelta(milliseconds=1)


class Duration(msgspec.Struct, frozen=True):
    """How long a tenant takes that has certain revisions pending.

    Attributes:
        pending_migrations: The names of the revisions, separated by commas.
        median_ms: The median of earlier tenants, in milliseconds.
        tenant_count: How many earlier tenants were read.
    """

    pending_migrations: str
    median_ms: int
    tenant_count: int


class _Took(msgspec.Struct, frozen=True):
    started_at: datetime
    finished_at: datetime


_item = tenant_migration.c
_newest = (
    sa.select(migration_run.c.id)
    .where(migration_run.c.undoes.is_(None))
    .order_by(migration_run.c.id.desc())
    .limit(RUNS_READ_MAX)
    .cte()
)
_TOOK = Statement(
    sa.select(_item.started_at, _item.finished_at)
    .where(
        _item.run_id.in_(sa.select(_newest.c.id)),
        _item.state == MigrationState.SUCCESS.value,
        _item.applied == sa.bindparam("applied", type_=sa.String),
        _item.started_at.is_not(None),
    )
    .limit(TENANTS_READ_MAX),
    _Took,
)


async def typical(session: CatalogSession, paths: Collection[str]) -> list[Duration]:
    """Return the durations of tenants to which exactly these revisions were applied.

    Each path is the names of revisions, separated by commas. Only the last `RUNS_READ_MAX` runs
    are read, and the first `PATHS_READ_MAX` *paths*. A path without an earlier tenant is left out.
    """
    found = []
    for path in list(paths)[:PATHS_READ_MAX]:
        rows = await session.fetch_all(_TOOK, applied=path)
        took = [(one.finished_at - one.started_at) // MILLISECOND for one in rows]
        if took:
            found.append(Duration(path, max(0, round(median(took))), len(took)))
    return found
