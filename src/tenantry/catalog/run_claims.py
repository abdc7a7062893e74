"""The items of a run that a worker holds: claim them, and give them back.

The pending items of a run are its work queue. A worker claims some at a time, and loses them
without a heartbeat.
"""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.jobs import is_moving
from tenantry.catalog.runs import RunTenant, is_open, is_pending, of_run
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import migration_run, tenant_migration
from tenantry.catalog.workers import NO_WORKER, is_abandoned
from tenantry.db.statements import Statement, columns_of

_run, _item = migration_run.c, tenant_migration.c
_ITEM_COLUMNS = columns_of(tenant_migration, RunTenant)
_worker = sa.bindparam("worker", type_=sa.Uuid)
_limit = sa.bindparam("limit", type_=sa.BigInteger)
_goes_on = sa.exists().where(_run.id == sa.bindparam("run"), _run.stop_reason.is_(None))


def _claim_of(*conditions: sa.ColumnElement[bool]) -> Statement[RunTenant]:
    """Return the statement that claims the first pending items that meet *conditions*."""
    # SQLite has one writer, and ignores the locking.
    found = (
        sa.select(_item.run_id, _item.tenant_id)
        .where(of_run, is_pending, ~is_moving(_item.tenant_id), *conditions)
        .order_by(_item.tenant_id)
        .limit(_limit)
        .with_for_update(skip_locked=True)
        .cte("found")  # read once: as a subquery it may be read again for every row
    )
    return Statement(
        sa.update(tenant_migration)
        .values(worker_id=_worker)
        .where(sa.tuple_(_item.run_id, _item.tenant_id).in_(sa.select(found)))
        .returning(*_ITEM_COLUMNS),
        RunTenant,
    )


_on_server = _item.server_name == sa.bindparam("server_name", type_=sa.String)
_CLAIM = _claim_of(_on_server, _item.worker_id.is_(None), _goes_on)
_CLAIM_ABANDONED = _claim_of(_on_server, is_abandoned(_item.worker_id, _worker))
_GIVE_UP = Statement[Any](
    sa.update(tenant_migration)
    .values(worker_id=sa.bindparam("holder", type_=sa.Uuid))
    .where(_item.worker_id == _worker, is_open)
)


async def claim(
    session: CatalogSession,
    run_id: UUID,
    worker_id: UUID,
    *,
    server_name: str,
    limit: int,
) -> list[RunTenant]:
    """Claim the first *limit* unclaimed items that may start; none if the run is stopped.

    They are in the order in which the tenants were created.
    """
    found = await session.fetch_all(
        _CLAIM, run=run_id, worker=worker_id, server_name=server_name, limit=limit
    )
    return sorted(found, key=lambda item: item.tenant_id)


async def claim_abandoned(
    session: CatalogSession,
    run_id: UUID,
    worker_id: UUID,
    *,
    server_name: str,
    limit: int,
) -> list[RunTenant]:
    """Claim up to *limit* items that another worker returned, or a dead worker held.

    They may have been started.
    """
    return await session.fetch_all(
        _CLAIM_ABANDONED, run=run_id, worker=worker_id, server_name=server_name, limit=limit
    )


async def release(session: CatalogSession, worker_id: UUID) -> None:
    """Release all items that *worker_id* holds: it has started none of them."""
    await session.execute(_GIVE_UP, worker=worker_id, holder=None)


async def abandon(session: CatalogSession, worker_id: UUID) -> None:
    """Give up the items that *worker_id* holds and may have started, for other workers."""
    await session.execute(_GIVE_UP, worker=worker_id, holder=NO_WORKER)
