"""The items of a run that wait, or that a worker holds: claim them, and give them back.

The pending items of a run are its work queue. A worker claims some at a time, and loses them
without a heartbeat.
"""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.jobs import is_frozen, is_moving
from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import RunTenant, is_open, is_pending, of_run
from tenantry.catalog.session import CatalogSession, Value, fetch_values
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import TenantState, is_ready
from tenantry.catalog.workers import NO_WORKER, is_abandoned
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, columns_of
from tenantry.db.types import Ids, is_listed

READ_ONLY = "not attempted: the tenant is read-only"
DELETED = "not attempted: the tenant was deleted"
MOVED = "the tenant is on another server, or has another database"


class Returned(msgspec.Struct, frozen=True):
    """A tenant that its worker returns to the queue.

    Attributes:
        may_have_started: Whether something may have been applied. Then the next worker reads the
            tenant's own log.
    """

    item: RunTenant
    may_have_started: bool


class _Held(msgspec.Struct, frozen=True):
    worker_id: UUID
    run_id: UUID
    tenant_id: UUID


class _State(msgspec.Struct, frozen=True):
    id: UUID
    state: str
    is_read_only: bool
    is_moved: bool


_run, _item = migration_run.c, tenant_migration.c
_ITEM_COLUMNS = columns_of(tenant_migration, RunTenant)
_worker = sa.bindparam("worker", type_=sa.Uuid)
_goes_on = sa.exists().where(_run.id == sa.bindparam("run"), _run.stop_reason.is_(None))


def _claim_of(*conditions: sa.ColumnElement[bool]) -> Statement[RunTenant]:
    """Return the statement that claims the first pending items that meet *conditions*."""
    # SQLite has one writer, and ignores the locking.
    found = (
        sa.select(_item.run_id, _item.tenant_id)
        .where(
            of_run,
            is_pending,
            ~is_moving(_item.tenant_id),
            ~is_listed(_item.tenant_id, sa.bindparam("busy", type_=Ids)),
            *conditions,
        )
        .order_by(_item.tenant_id)
        .limit(LIMIT)
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
_TAKE_OVER = _claim_of(_on_server, is_abandoned(_item.worker_id, _worker))
_is_held = sa.and_(_item.worker_id == _worker, is_open)
_HELD = Statement(
    sa.select(*columns_of(tenant_migration, _Held)).where(
        is_listed(_item.worker_id, sa.bindparam("workers", type_=Ids)), is_open
    ),
    _Held,
)
_is_of_tenant = _item.tenant_id == sa.bindparam("tenant")
_give_up = sa.update(tenant_migration).values(worker_id=sa.bindparam("holder", type_=sa.Uuid))
_GIVE_UP = Statement[Any](_give_up.where(_is_held))
_RETURN = Statement[Any](_give_up.where(of_run, _is_of_tenant, _is_held))
_FIND_LOST = Statement(
    sa.select(_item.server_name.label("value")).where(
        of_run,
        _is_of_tenant,
        sa.or_(
            _item.server_name != sa.bindparam("server_name"),
            _item.database_name != sa.bindparam("database_name"),
            is_moving(_item.tenant_id),
            _item.worker_id.is_distinct_from(sa.bindparam("worker")),
            _item.finished_at.is_not(None),
        ),
    ),
    Value,
)
_is_same_tenant = tenant.c.id == _item.tenant_id
_FOLLOW = Statement[Any](
    sa.update(tenant_migration)
    .values(
        server_name=sa.select(tenant.c.server_name).where(_is_same_tenant).scalar_subquery(),
        database_name=sa.select(tenant.c.database_name).where(_is_same_tenant).scalar_subquery(),
        worker_id=NO_WORKER,
    )
    .where(
        of_run,
        is_listed(_item.tenant_id, sa.bindparam("tenant_ids", type_=Ids)),
        _is_held,
    )
)

# One that was frozen after its claim goes back to the queue: see `fleet.worker`.
_is_withheld = sa.and_(tenant.c.is_read_only, ~is_frozen(tenant.c.id))
_is_moved = sa.or_(
    tenant.c.server_name != _item.server_name, tenant.c.database_name != _item.database_name
)
_WITHHELD = Statement(
    sa.select(
        tenant.c.id, tenant.c.state, _is_withheld.label("is_read_only"), _is_moved.label("is_moved")
    )
    .join(tenant_migration, _item.tenant_id == tenant.c.id)
    .where(
        _item.run_id == sa.bindparam("run"),
        is_listed(_item.tenant_id, sa.bindparam("tenant_ids", type_=Ids)),
        sa.or_(~is_ready, _is_withheld, _is_moved),
    ),
    _State,
)


def _pending_servers() -> Statement[Value]:
    """Return the statement that finds the servers of pending items, with a probe for each."""
    least = sa.select(sa.func.min(_item.server_name)).where(of_run, is_pending)
    found = least.cte("found", recursive=True)
    name = found.c[0]
    following = least.where(_item.server_name > name).scalar_subquery()
    found = found.union_all(sa.select(following).where(name.is_not(None)))
    name = found.c[0].label("value")
    return Statement(sa.select(name).where(name.is_not(None)), Value)


_PENDING_SERVERS = _pending_servers()


async def claim(
    session: CatalogSession,
    run_id: UUID,
    worker_id: UUID,
    *,
    server_name: str,
    limit: int,
    busy: Collection[UUID] = (),
    were_held: bool = False,
) -> list[RunTenant]:
    """Claim the first *limit* unclaimed items that may start; none if the run is stopped.

    With *were_held*, claim those that another worker returned, or a silent one held: they may have
    been started. They are in the order in which the tenants were created.

    The *busy* tenants are left out: those that *worker_id* has lost, or returned, and is still
    working on. The outcome of its first attempt would be written as that of its second one.
    """
    found = await session.fetch_all(
        _TAKE_OVER if were_held else _CLAIM,
        run=run_id,
        worker=worker_id,
        server_name=server_name,
        limit=limit,
        busy=list(busy),
    )
    return sorted(found, key=lambda item: item.tenant_id)


async def give_up(session: CatalogSession, worker_id: UUID, *, may_have_started: bool) -> None:
    """Let any worker claim all items that *worker_id* holds, and may have started."""
    holder = NO_WORKER if may_have_started else None
    await session.execute(_GIVE_UP, worker=worker_id, holder=holder)


async def give_back(session: CatalogSession, returned: Sequence[Returned], worker_id: UUID) -> None:
    """Let any worker claim what *worker_id* returns, as far as it still holds it."""
    rows = [
        {
            "run": one.item.run_id,
            "tenant": one.item.tenant_id,
            "worker": worker_id,
            "holder": NO_WORKER if one.may_have_started else None,
        }
        for one in returned
    ]
    await session.execute_many(_RETURN, rows)


async def follow(
    session: CatalogSession, run_id: UUID, tenant_ids: Sequence[UUID], worker_id: UUID
) -> None:
    """Give items of *worker_id* the current places of their tenants, and let any worker claim them.

    A tenant was moved while it was planned: neither transaction saw the other's rows. The next
    worker reads the tenant's own log.
    """
    await session.execute(_FOLLOW, run=run_id, tenant_ids=tenant_ids, worker=worker_id)


async def is_lost(session: CatalogSession, item: RunTenant, *, worker_id: UUID) -> bool:
    """Return whether *item*, which *worker_id* has claimed, is not to be tried again by it.

    The tenant was moved since then, or is being moved; or another process has taken it over.
    """
    found = await session.fetch_one(
        _FIND_LOST,
        worker=worker_id,
        run=item.run_id,
        tenant=item.tenant_id,
        server_name=item.server_name,
        database_name=item.database_name,
    )
    return found is not None


async def held(
    session: CatalogSession, worker_ids: Collection[UUID]
) -> set[tuple[UUID, UUID, UUID]]:
    """Return the items that workers hold and have not ended, as ids of worker, run and tenant."""
    found = await session.fetch_all(_HELD, workers=list(worker_ids))
    return {(one.worker_id, one.run_id, one.tenant_id) for one in found}


async def pending_servers(session: CatalogSession, run_id: UUID) -> list[str]:
    """Return the servers of the items that may start and have not ended, by name."""
    return await fetch_values(session, _PENDING_SERVERS, run=run_id)


async def withheld(
    session: CatalogSession, run_id: UUID, tenant_ids: Sequence[UUID]
) -> dict[UUID, str]:
    """Return which tenants of a run must not be migrated, or not where its item says: the reason.

    A suspended tenant is not among them: a run that has planned it migrates it. An item has an old
    place if the tenant was moved in the moment in which it was planned.
    """
    found = await session.fetch_all(_WITHHELD, run=run_id, tenant_ids=tenant_ids)
    return {one.id: _reason(one) for one in found}


def _reason(found: _State) -> str:
    if found.state != TenantState.READY.value:
        return DELETED
    return READ_ONLY if found.is_read_only else MOVED
