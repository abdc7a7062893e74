"""Plans: insert a run, with one item for each selected tenant.

The items are added in batches, each in its own transaction, so that other writers of the catalog
do not wait for a million rows. The run is hidden until it is complete. If its planner dies,
another process removes it.

The functions that write take a transaction on the catalog.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.jobs import is_frozen
from tenantry.catalog.pace import PACE
from tenantry.catalog.run_results import is_left
from tenantry.catalog.run_tables import migration_run, plan_tenant, tenant_migration
from tenantry.catalog.runs import MigrationState, Progress
from tenantry.catalog.session import CatalogSession, RowId, fetch_or_raise
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import is_migrated, is_ready
from tenantry.catalog.waves import CREATION, sort_key_of, wave_of
from tenantry.catalog.where import conditions_of
from tenantry.catalog.workers import is_abandoned
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, parameters
from tenantry.db.types import Ids, is_listed
from tenantry.kit.errors import Unavailable


class Selection(msgspec.Struct, frozen=True):
    """Selects the tenants of a run: all that are active and not read-only, by default.

    Attributes:
        tenant_ids: Only these tenants.
        retry_of: Only the tenants that failed in this run, and have not been migrated since.
        cause: Only the tenants that failed with this cause; needs `retry_of`.
        head: Only the tenants that were not last seen at this revision, or that failed in their
            latest attempt.
        plan_id: Only the tenants of this stored plan.
        has_passed: With `plan_id`: only the tenants that its rehearsal has passed.
        where: Only the tenants that this expression selects: see `catalog.where`.
        named: The waves that name their tenants, each by such an expression. With `plan_id`, its
            waves and its order are used.
        order: The order of the tenants in a wave, one of `waves.ORDERS`.
        undoes: Only the tenants to which this run may have applied a revision that no run has
            undone. A failed tenant may have one that the catalog does not know of.
    """

    tenant_ids: Sequence[UUID] | None = None
    retry_of: UUID | None = None
    cause: str | None = None
    head: str | None = None
    plan_id: UUID | None = None
    has_passed: bool | None = None
    where: str | None = None
    named: tuple[str, ...] = ()
    order: str = CREATION
    undoes: UUID | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it selects no tenant, whatever there is."""
        return self.tenant_ids is not None and not self.tenant_ids

    @property
    def statements(self) -> "_Statements":
        """The statements that select, and add items, with the conditions that limit it."""
        choice = frozenset(name for name in _CONDITIONS if getattr(self, name) is not None)
        return _statements(choice, self.where, self.named, self.order)

    @property
    def values(self) -> dict[str, Any]:
        """The values of the parameters of its statements."""
        return msgspec.structs.asdict(self)


class Selected(msgspec.Struct, frozen=True):
    """A tenant that is selected for a run.

    Attributes:
        wave: The first wave that names it, from 0, or their number; None if no wave names tenants.
        sort_key: What orders the tenants of a wave; None in the order of their creation.
    """

    tenant_id: UUID
    tenant_name: str
    database_name: str
    server_name: str
    wave: int | None
    sort_key: str | None


_run, _item = migration_run.c, tenant_migration.c
_ids = sa.bindparam("tenant_ids", type_=Ids)
_retry_of = sa.bindparam("retry_of", type_=sa.Uuid)
_cause = sa.bindparam("cause", type_=sa.String)
_head = sa.bindparam("head", type_=sa.String)
_failed_before = sa.select(_item.tenant_id).where(
    _item.run_id == _retry_of,
    _item.state == MigrationState.FAILED.value,
    sa.or_(_cause.is_(None), _item.cause == _cause),
)
_is_left = sa.exists().where(_run.id == _retry_of, is_left)
# One that is moved is migrated after the move.
_is_selected = sa.or_(
    is_migrated,
    sa.and_(
        is_ready,
        tenant.c.is_active,
        tenant.c.is_read_only,
        is_frozen(tenant.c.id),
    ),
)
_undoes = sa.bindparam("undoes", type_=sa.Uuid)
# What no worker held was not opened: a run that is stopped ends it as failed all the same.
_may_be_applied = sa.select(_item.tenant_id).where(
    _item.run_id == _undoes,
    _item.worker_id.is_not(None),
    sa.or_(_item.state == MigrationState.FAILED.value, _item.applied.is_not(None)),
)
_undone = (
    sa.select(_item.tenant_id)
    .join(migration_run, _run.id == _item.run_id)
    .where(_run.undoes == _undoes, _item.state == MigrationState.SUCCESS.value)
)
_CONDITIONS = {
    "tenant_ids": is_listed(tenant.c.id, _ids),
    "retry_of": sa.and_(tenant.c.id.in_(_failed_before), _is_left),
    "head": sa.or_(
        tenant.c.schema_revision.is_distinct_from(_head), tenant.c.failing_run_id.is_not(None)
    ),
    "undoes": sa.and_(tenant.c.id.in_(_may_be_applied), tenant.c.id.not_in(_undone)),
    "plan_id": plan_tenant.c.plan_id == sa.bindparam("plan_id", type_=sa.Uuid),
    "has_passed": plan_tenant.c.has_passed == sa.bindparam("has_passed", type_=sa.Boolean),
}
_SELECTED_COLUMNS = (
    tenant.c.id.label("tenant_id"),
    tenant.c.name.label("tenant_name"),
    tenant.c.database_name,
    tenant.c.server_name,
)

_ADD = Statement[Any](
    sa.insert(migration_run).values(parameters("planner_id", *Progress.__struct_fields__))
)


@functools.lru_cache(maxsize=64)  # without expressions, there are fewer
def _statements(
    choice: frozenset[str], where: str | None, named: tuple[str, ...], order: str
) -> "_Statements":
    """Return statements with the chosen conditions only, so that an index of them is used."""
    place: tuple[sa.ColumnElement[Any], ...] = wave_of(named), sort_key_of(order)
    if "plan_id" in choice:
        place = plan_tenant.c.wave, plan_tenant.c.sort_key
    labelled = (one.label(name) for one, name in zip(place, ("wave", "sort_key"), strict=True))
    conditions = [*(_CONDITIONS[name] for name in sorted(choice)), *conditions_of(where)]
    found = (
        sa.select(*_SELECTED_COLUMNS, *labelled)
        .where(_is_selected, *conditions)
        .order_by(tenant.c.id)
    )
    planned_from: sa.ColumnElement[Any] = sa.cast(sa.null(), sa.String)
    if "plan_id" in choice:
        found = found.join_from(tenant, plan_tenant, plan_tenant.c.tenant_id == tenant.c.id)
        planned_from = plan_tenant.c.position
    some = found.where(tenant.c.id > sa.bindparam("after", type_=sa.Uuid)).limit(LIMIT)
    some = some.add_columns(
        sa.bindparam("run", type_=sa.Uuid), sa.bindparam("state", type_=sa.String), planned_from
    )
    names = [*Selected.__struct_fields__, "run_id", "state", "planned_from"]
    items = sa.insert(tenant_migration).from_select(names, some)
    return _Statements(
        Statement(found.limit(LIMIT), Selected),
        Statement(items.returning(_item.tenant_id.label("id")), RowId),
    )


class _Statements(NamedTuple):
    select: Statement[Selected]
    add: Statement[RowId]


_BEGUN = [name for name in Progress.__struct_fields__ if name != "id"]
_BEGIN = Statement[Any](
    sa.update(migration_run)
    .values(planner_id=None, **parameters("revision_hashes", *_BEGUN))
    .where(_run.id == sa.bindparam("run"))
)
_planner = sa.bindparam("planner", type_=sa.Uuid)
_is_abandoned = sa.and_(
    _run.planner_id.is_not(None),
    sa.or_(_run.planner_id == _planner, is_abandoned(_run.planner_id, _planner)),
)
_ABANDONED = Statement(sa.select(_run.id).where(_is_abandoned), RowId)
_HOLD, _TAKE = (
    Statement(
        sa.update(migration_run)
        .values(planner_id=_planner)
        .where(_run.id == sa.bindparam("run"), condition)
        .returning(_run.id),
        RowId,
    )
    for condition in (_run.planner_id == _planner, _is_abandoned)
)
_REMOVE_ITEMS = Statement(
    sa.delete(tenant_migration)
    .where(
        _item.run_id == sa.bindparam("run"),
        _item.tenant_id.in_(
            sa.select(_item.tenant_id)
            .where(_item.run_id == sa.bindparam("run"))
            .order_by(_item.tenant_id)
            .limit(LIMIT)
        ),
    )
    .returning(_item.tenant_id.label("id")),
    RowId,
)
_EXISTING = Statement(
    sa.select(_run.id).where(is_listed(_run.id, sa.bindparam("run_ids", type_=Ids))), RowId
)
_REMOVE = Statement[Any](sa.delete(migration_run).where(_run.id == sa.bindparam("run")))
_MIGRATED = Statement(
    sa.select(tenant.c.id).where(_is_selected, is_listed(tenant.c.id, _ids)), RowId
)


class PlanLost(Unavailable):
    """The run was removed: this process was silent for too long while it planned it. Try again."""


async def add(session: CatalogSession, run: Progress, *, planner_id: UUID) -> None:
    """Insert a run without items, which *planner_id* adds. It is hidden until `begin`."""
    await session.execute(_ADD, planner_id=planner_id, **msgspec.structs.asdict(run))


async def add_items(
    session: CatalogSession,
    run_id: UUID,
    selection: Selection,
    *,
    after: UUID | None = None,
    waits: bool = False,
    limit: int = PACE.added_max,
) -> list[UUID]:
    """Add up to *limit* items to a run that has not begun; return their tenants, in order.

    They follow the tenant *after*, the last one that was added. With *waits*, they wait for their
    wave; else all of them may start.
    """
    if selection.is_empty:
        return []
    state = MigrationState.WAITING if waits else MigrationState.PENDING
    added = await session.fetch_all(
        selection.statements.add,
        run=run_id,
        state=state.value,
        after=after or UUID(int=0),
        limit=limit,
        **selection.values,
    )
    return sorted(one.id for one in added)


async def hold(session: CatalogSession, run_id: UUID, planner_id: UUID) -> None:
    """Lock a hidden run, so that no process removes it in this transaction.

    Raises:
        PlanLost: Another process removes it.
    """
    await fetch_or_raise(session, _HOLD, PlanLost, run=run_id, planner=planner_id)


async def begin(
    session: CatalogSession, begun: Progress, *, revision_hashes: Mapping[str, str] | None = None
) -> None:
    """Show a run as *begun*, after its last `add_items`; one without tenants has ended.

    The first wave begins, and `run_tenants.open_batch` opens it. *revision_hashes* are what the
    function of this name in `runs` returns.
    """
    values = {name: getattr(begun, name) for name in _BEGUN}
    await session.execute(_BEGIN, run=begun.id, revision_hashes=revision_hashes, **values)


async def selected(session: CatalogSession, selection: Selection, *, limit: int) -> list[Selected]:
    """Return the first *limit* selected tenants, in the order of their creation."""
    if selection.is_empty:
        return []
    statement = selection.statements.select
    return await session.fetch_all(statement, **selection.values, limit=limit)


async def abandoned(session: CatalogSession, planner_id: UUID) -> list[UUID]:
    """Return the hidden runs of a planner, and of all that have no current heartbeat."""
    return [one.id for one in await session.fetch_all(_ABANDONED, planner=planner_id)]


async def remove_some(
    session: CatalogSession, run_id: UUID, planner_id: UUID, *, limit: int = PACE.added_max
) -> bool:
    """Remove up to *limit* items of an abandoned run; return whether nothing is left to remove.

    *planner_id* is the worker that removes it; its planner can no longer begin it then.
    """
    if await session.fetch_one(_TAKE, run=run_id, planner=planner_id) is None:
        return True  # its planner lives, and continues; or another process has removed it
    removed = await session.fetch_all(_REMOVE_ITEMS, run=run_id, limit=limit)
    if len(removed) == limit:
        return False
    await session.execute(_REMOVE, run=run_id)
    return True


async def existing(session: CatalogSession, run_ids: Collection[UUID]) -> set[UUID]:
    """Return which of *run_ids* are of runs in the history."""
    found = await session.fetch_all(_EXISTING, run_ids=list(set(run_ids)))
    return {one.id for one in found}


async def left_out(session: CatalogSession, tenant_ids: Sequence[UUID]) -> list[UUID]:
    """Return which of *tenant_ids* cannot be in a run, in their order.

    They are deleted, suspended or read-only.
    """
    found = await session.fetch_all(_MIGRATED, tenant_ids=tenant_ids)
    migrated = {one.id for one in found}
    return [one for one in tenant_ids if one not in migrated]
