"""Plans: insert a run, with one item for each selected tenant."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.runs import MigrationState
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import migration_run, tenant, tenant_migration
from tenantry.catalog.tenants import TenantState, is_migrated
from tenantry.db.statements import Count, Statement, columns_of, parameters
from tenantry.db.types import Ids, is_listed

# Why a tenant of a run was not migrated.
READ_ONLY = "not attempted: the tenant is read-only"
DELETED = "not attempted: the tenant was deleted"


class Selection(msgspec.Struct, frozen=True):
    """Selects the tenants of a run: all that are active and not read-only, by default.

    Attributes:
        tenant_ids: Only these tenants.
        retry_of: Only the tenants that failed in this run.
        cause: Only the tenants that failed with this cause; needs `retry_of`.
    """

    tenant_ids: Sequence[UUID] | None = None
    retry_of: UUID | None = None
    cause: str | None = None


class Selected(msgspec.Struct, frozen=True):
    """A tenant that is selected for a run."""

    tenant_id: UUID
    tenant_name: str
    database_name: str
    server_name: str


class _Id(msgspec.Struct, frozen=True):
    id: UUID


class _State(msgspec.Struct, frozen=True):
    id: UUID
    state: str
    is_read_only: bool


_run, _item = migration_run.c, tenant_migration.c
_ids = sa.bindparam("tenant_ids", type_=Ids)
_retry_of = sa.bindparam("retry_of", type_=sa.Uuid)
_cause = sa.bindparam("cause", type_=sa.String)
_is_selected = sa.and_(
    is_migrated,
    sa.or_(_ids.is_(None), is_listed(tenant.c.id, _ids)),
    sa.or_(
        _retry_of.is_(None),
        tenant.c.id.in_(
            sa.select(_item.tenant_id).where(
                _item.run_id == _retry_of,
                _item.state == MigrationState.FAILED.value,
                sa.or_(_cause.is_(None), _item.cause == _cause),
            )
        ),
    ),
)
_SELECTED_COLUMNS = (
    tenant.c.id.label("tenant_id"),
    tenant.c.name.label("tenant_name"),
    tenant.c.database_name,
    tenant.c.server_name,
)

_ADD = Statement[Any](sa.insert(migration_run))
_ADD_ITEMS = Statement[Any](
    sa.insert(tenant_migration).from_select(
        ["run_id", *columns_of(tenant_migration, Selected), "state"],
        sa.select(
            sa.bindparam("run", type_=sa.Uuid),
            *_SELECTED_COLUMNS,
            sa.bindparam("state", type_=sa.String),
        ).where(_is_selected),
    )
)
_COUNT_ITEMS = Statement(
    sa.select(sa.func.count().label("count")).where(_item.run_id == sa.bindparam("run")), Count
)
_BEGIN = Statement[Any](
    sa.update(migration_run)
    .values(parameters("total_count", "finished_at", "waves", "max_failures"))
    .where(_run.id == sa.bindparam("run"))
)
_SELECTED = Statement(
    sa.select(*_SELECTED_COLUMNS).where(_is_selected).order_by(tenant.c.id), Selected
)
_MIGRATED = Statement(sa.select(tenant.c.id).where(is_migrated, is_listed(tenant.c.id, _ids)), _Id)

_WITHHELD = Statement(
    sa.select(*columns_of(tenant, _State)).where(
        is_listed(tenant.c.id, _ids),
        sa.or_(tenant.c.state != TenantState.READY.value, tenant.c.is_read_only),
    ),
    _State,
)


async def add(
    session: CatalogSession,
    run_id: UUID,
    *,
    now: datetime,
    triggered_by: str,
    head: str | None = None,
    label: str | None = None,
    selection: Selection = Selection(),  # noqa: B008 - it is frozen
    waits: bool = False,
) -> int:
    """Insert a run, with one item for each selected tenant; `begin` then sets its options.

    Args:
        session: A transaction on the catalog.
        run_id: The id of the new run.
        now: When it starts.
        triggered_by: The actor, as shown in the history.
        head: The position that its tenants must reach.
        label: Its label, if any.
        selection: The selected tenants.
        waits: Whether they wait for their wave; else all of them may start.

    Returns:
        The number of tenants.
    """
    await session.execute(
        _ADD,
        id=run_id,
        started_at=now,
        finished_at=None,
        triggered_by=triggered_by,
        total_count=0,
        success_count=0,
        failed_count=0,
        head=head,
        label=label,
        waves=None,
        max_failures=None,
        stop_reason=None,
        last_sequence=None,
        retry_of=selection.retry_of,
        not_attempted_count=0,
    )
    state = MigrationState.WAITING if waits else MigrationState.PENDING
    await session.execute(
        _ADD_ITEMS, run=run_id, state=state.value, **msgspec.structs.asdict(selection)
    )
    added = await session.fetch_one(_COUNT_ITEMS, run=run_id)
    assert added is not None
    return added.count


async def begin(
    session: CatalogSession,
    run_id: UUID,
    *,
    now: datetime,
    total: int,
    waves: Sequence[int] = (),
    max_failures: int | None = None,
) -> None:
    """Set the number of tenants and the options of a run; a run without tenants has ended.

    Args:
        session: The transaction of `add`.
        run_id: The id of the run.
        now: When it starts.
        total: The number of tenants.
        waves: The cumulative number of tenants up to each wave.
        max_failures: The failure budget; None without a limit.
    """
    await session.execute(
        _BEGIN,
        run=run_id,
        total_count=total,
        finished_at=None if total else now,
        waves=list(waves) or None,
        max_failures=max_failures,
    )


async def selected(session: CatalogSession, selection: Selection) -> list[Selected]:
    """Return the selected tenants, in the order of their creation."""
    return await session.fetch_all(_SELECTED, **msgspec.structs.asdict(selection))


async def left_out(session: CatalogSession, tenant_ids: Sequence[UUID]) -> list[UUID]:
    """Return which of *tenant_ids* cannot be in a run, in their order.

    They are deleted, suspended or read-only.
    """
    found = await session.fetch_all(_MIGRATED, tenant_ids=tenant_ids)
    migrated = {one.id for one in found}
    return [one for one in tenant_ids if one not in migrated]


async def withheld(session: CatalogSession, tenant_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return which of these planned tenants must not be migrated, with the reason.

    A suspended tenant is not among them: a run that has planned it migrates it.
    """
    found = await session.fetch_all(_WITHHELD, tenant_ids=tenant_ids)
    return {one.id: READ_ONLY if one.state == TenantState.READY.value else DELETED for one in found}
