"""What has come of a run: why tenants failed, and which revisions it has applied."""

from collections.abc import Collection
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import UNDO_OF, MigrationState, of_run
from tenantry.catalog.session import CatalogSession, Value, fetch_values
from tenantry.catalog.stored_plans import PlanCause, sample_of
from tenantry.catalog.tables import tenant
from tenantry.db.statements import Statement
from tenantry.db.types import Ids, is_listed

CAUSES_MAX = 1_000
PATHS_MAX = 1_000


class Cause(PlanCause, frozen=True):
    """Errors of one kind in a run.

    Attributes:
        cause: What they have in common.
        count: How many tenants failed of it.
        sample_tenant_id: One of them.
        left: How many of them still exist, and have not been migrated since.
    """

    left: int


_run, _item = migration_run.c, tenant_migration.c
_PATHS = Statement(
    sa.select(_item.applied.label("value"))
    .where(of_run, _item.applied != "")
    .distinct()
    .limit(PATHS_MAX),
    Value,
)
_APPLIED_IN = Statement(
    sa.select(_item.tenant_id.label("value")).where(
        of_run, _item.tenant_id == sa.bindparam("tenant"), _item.applied != ""
    ),
    Value,
)
_TAKEN_FAILURES = Statement(
    sa.select(_item.tenant_id.label("value"))
    .where(of_run, _item.worker_id.is_not(None), _item.state == MigrationState.FAILED.value)
    .limit(1),
    Value,
)
_count = sa.func.count()
is_left = sa.or_(
    tenant.c.failing_run_id.is_not(None),
    sa.case(
        (_run.undoes.is_(None), tenant.c.schema_revision.is_distinct_from(_run.head)),
        else_=sa.or_(
            tenant.c.schema_revision.is_(None),
            sa.literal(UNDO_OF) + tenant.c.schema_revision == _run.head,
        ),
    ),
)
"""Whether a tenant of a run has not been migrated, or undone, since."""
_FAILURES = Statement(
    sa.select(
        _item.cause,
        _count.label("count"),
        sample_of(_item.tenant_id),
        # A tenant that was not attempted is left until it reaches the head of that run.
        sa.func.count(sa.case((is_left, tenant.c.id))).label("left"),
    )
    .select_from(
        tenant_migration.join(migration_run, _run.id == _item.run_id).outerjoin(
            tenant, tenant.c.id == _item.tenant_id
        )
    )
    .where(of_run, _item.state == MigrationState.FAILED.value)
    .group_by(_item.cause)
    .order_by(_count.desc(), _item.cause)
    .limit(CAUSES_MAX),
    Cause,
)


class _NotUndone(msgspec.Struct, frozen=True):
    run_id: UUID
    count: int


_undo, _undone = migration_run.alias().c, tenant_migration.alias()
_is_undone = sa.exists().where(
    _undo.undoes == _item.run_id,
    _undone.c.run_id == _undo.id,
    _undone.c.tenant_id == _item.tenant_id,
    _undone.c.state == MigrationState.SUCCESS.value,
)
_NOT_UNDONE = Statement(
    sa.select(_item.run_id, _count.label("count"))
    .where(is_listed(_item.run_id, sa.bindparam("run_ids", type_=Ids)))
    .where(_item.applied != "", ~_is_undone)
    .group_by(_item.run_id),
    _NotUndone,
)


async def failure_causes(session: CatalogSession, run_id: UUID) -> list[Cause]:
    """Return the causes of the failures in a run, most frequent first, at most `CAUSES_MAX`."""
    return await session.fetch_all(_FAILURES, run=run_id)


async def has_taken_failures(session: CatalogSession, run_id: UUID) -> bool:
    """Return whether a tenant has failed in a run after a process had taken it."""
    return bool(await fetch_values(session, _TAKEN_FAILURES, run=run_id))


async def has_applied(session: CatalogSession, run_id: UUID, tenant_id: UUID) -> bool:
    """Return whether a run has reported a revision that it has applied in a tenant."""
    return bool(await fetch_values(session, _APPLIED_IN, run=run_id, tenant=tenant_id))


async def not_undone(session: CatalogSession, run_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return in how many tenants the revisions of each run were not undone, if in any."""
    found = await session.fetch_all(_NOT_UNDONE, run_ids=list(run_ids))
    return {one.run_id: one.count for one in found}


async def applied(session: CatalogSession, run_id: UUID) -> set[str]:
    """Return the names of the revisions that a run has applied, of up to `PATHS_MAX` lists."""
    paths = await fetch_values(session, _PATHS, run=run_id)
    return {name for path in paths for name in path.split(",")}
