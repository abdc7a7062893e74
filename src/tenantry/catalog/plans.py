"""Plans: a run is written down, with one item for each tenant that is selected."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.runs import MigrationState
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import migration_run, tenant, tenant_migration
from tenantry.catalog.tenants import TenantState
from tenantry.db.statements import Count, Statement, columns_of, parameters
from tenantry.db.types import Ids, is_listed


class Selection(msgspec.Struct, frozen=True):
    """Which of the active tenants are in a run: all of them, unless something is said.

    Attributes:
        tenant_ids: Only these.
        retry_of: Only those that failed in this run.
    """

    tenant_ids: Sequence[UUID] | None = None
    retry_of: UUID | None = None


class Selected(msgspec.Struct, frozen=True):
    """A tenant that is in a run, or would be."""

    tenant_id: UUID
    tenant_name: str
    database_name: str
    server_name: str


class _Id(msgspec.Struct, frozen=True):
    id: UUID


_run, _item = migration_run.c, tenant_migration.c
_ids = sa.bindparam("tenant_ids", type_=Ids)
_retry_of = sa.bindparam("retry_of", type_=sa.Uuid)
_is_active = sa.and_(tenant.c.is_active, tenant.c.state == TenantState.READY.value)
_is_selected = sa.and_(
    _is_active,
    sa.or_(_ids.is_(None), is_listed(tenant.c.id, _ids)),
    sa.or_(
        _retry_of.is_(None),
        tenant.c.id.in_(
            sa.select(_item.tenant_id).where(
                _item.run_id == _retry_of, _item.state == MigrationState.FAILED.value
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
_ACTIVE = Statement(sa.select(tenant.c.id).where(_is_active, is_listed(tenant.c.id, _ids)), _Id)


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
    """Record a run, with one row for each selected tenant; `begin` says how it is to go.

    Args:
        session: A transaction on the catalog.
        run_id: Of the new run.
        now: Its start.
        triggered_by: The actor, as shown in the history.
        head: The position that its tenants must reach.
        label: What it is called.
        selection: Which tenants are in it.
        waits: Whether they wait for their wave; else all of them may start.

    Returns:
        How many tenants are in it.
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
    """Say how many tenants are in a run, and how it is to go; one of none has ended.

    Args:
        session: The transaction that added it.
        run_id: Of the run.
        now: Its start.
        total: How many tenants are in it.
        waves: How many of them may have started when each wave has begun.
        max_failures: The failures that it bears; None when it bears all.
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
    """Return the tenants that would be in a run, in the order of their making."""
    return await session.fetch_all(_SELECTED, **msgspec.structs.asdict(selection))


async def inactive(session: CatalogSession, tenant_ids: Sequence[UUID]) -> list[UUID]:
    """Return which of *tenant_ids* are no active tenants, in their order."""
    active = {one.id for one in await session.fetch_all(_ACTIVE, tenant_ids=tenant_ids)}
    return [one for one in tenant_ids if one not in active]
