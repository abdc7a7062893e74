"""Migration runs: what was asked of the fleet, and what became of it.

The pending rows of a run are its work list. A runner claims some at a time; one that falls
silent loses them, and only the one that holds a row may write its outcome. There is no
second copy of what is still to be done.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import tenants
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.runners import is_free
from tenantry.catalog.tables import migration_run, tenant, tenant_migration
from tenantry.catalog.tenants import TenantState
from tenantry.db.statements import Count, Statement, columns_of
from tenantry.kit.errors import NotFound
from tenantry.kit.pages import Page, Window

UNFINISHED_MAX = 100


class MigrationRunNotFound(NotFound):
    """There is no migration run with this id."""


class MigrationState(StrEnum):
    """What became of one tenant's part in a run."""

    PENDING = "Pending"
    SUCCESS = "Success"
    FAILED = "Failed"


class MigrationRun(msgspec.Struct, frozen=True):
    """One request to bring every active tenant to the head revision.

    Attributes:
        total_count: Tenants in the run, fixed at its start.
    """

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    triggered_by: str
    total_count: int
    success_count: int
    failed_count: int


class TenantMigration(msgspec.Struct, frozen=True):
    """One tenant's part in a run.

    Attributes:
        applied: Names with commas between them; None when nothing was pending, empty when
            it failed and nothing stayed applied.
    """

    run_id: UUID
    tenant_id: UUID
    tenant_name: str
    database_name: str
    server_name: str
    state: str
    applied: str | None
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None


class Outcome(msgspec.Struct, frozen=True):
    """What became of one tenant, and where its database now stands if that is known."""

    part: TenantMigration
    schema_revision: str | None


class UnfinishedRun(msgspec.Struct, frozen=True):
    """A run that goes on.

    Attributes:
        head: Where it is to bring the tenants; None when its planner could not tell.
    """

    id: UUID
    head: str | None
    started_at: datetime


class Recorded(msgspec.Struct, frozen=True):
    """What was written down.

    Attributes:
        tenants: The states of the parts.
        runs: The runs that have ended with them.
    """

    tenants: list[str]
    runs: list[MigrationRun]


class _Id(msgspec.Struct, frozen=True):
    tenant_id: UUID


_run, _part = migration_run.c, tenant_migration.c
_RUN_COLUMNS = columns_of(migration_run, MigrationRun)
_PART_COLUMNS = columns_of(tenant_migration, TenantMigration)
_of_run = _part.run_id == sa.bindparam("run")
_is_open = _part.finished_at.is_(None)
_is_unfinished = _run.finished_at.is_(None)
_runner = sa.bindparam("runner", type_=sa.Uuid)
_now = sa.bindparam("now", type_=_run.started_at.type)

_ADD = Statement[Any](sa.insert(migration_run))
_ADD_PENDING = Statement(
    sa.insert(tenant_migration)
    .from_select(
        ["run_id", "tenant_id", "tenant_name", "database_name", "server_name", "state"],
        sa.select(
            sa.bindparam("run", type_=sa.Uuid),
            *tenant.c["id", "name", "database_name", "server_name"],
            sa.literal(MigrationState.PENDING.value),
        ).where(tenant.c.is_active, tenant.c.state == TenantState.READY.value),
    )
    .returning(_part.tenant_id),
    _Id,
)
_START = Statement[Any](
    sa.update(migration_run)
    .values(
        total_count=sa.bindparam("total"),
        finished_at=sa.case((sa.bindparam("total", type_=sa.Integer) == 0, _run.started_at)),
    )
    .where(_run.id == sa.bindparam("run"))
)
_FIND = Statement(sa.select(*_RUN_COLUMNS).where(_run.id == sa.bindparam("run")), MigrationRun)
_PAGE = Statement(
    sa.select(*_RUN_COLUMNS)
    .order_by(_run.id.desc())
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    MigrationRun,
)
_COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(migration_run), Count)
_UNFINISHED = Statement(
    sa.select(_run.id, _run.head, _run.started_at)
    .where(_is_unfinished)
    .order_by(_run.id)
    .limit(UNFINISHED_MAX),
    UnfinishedRun,
)
_ENDED = Statement(
    sa.select(*_PART_COLUMNS).where(_of_run, ~_is_open).order_by(_part.tenant_id),
    TenantMigration,
)
# SQLite has one writer, and ignores the locking.
_free = (
    sa.select(_part.run_id, _part.tenant_id)
    .where(_of_run, _part.state == MigrationState.PENDING.value, is_free(_part.runner_id))
    .order_by(_part.tenant_id)
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .with_for_update(skip_locked=True)
    .cte("free")  # read once: as a subquery it may be read again for every row
)
_CLAIM = Statement(
    sa.update(tenant_migration)
    .values(runner_id=_runner)
    .where(sa.tuple_(_part.run_id, _part.tenant_id).in_(sa.select(_free)))
    .returning(*_PART_COLUMNS),
    TenantMigration,
)
_RELEASE = Statement[Any](
    sa.update(tenant_migration).values(runner_id=None).where(_part.runner_id == _runner, _is_open)
)
_RECORD = Statement(
    sa.update(tenant_migration)
    .values(
        {
            name: sa.bindparam(name)
            for name in ("state", "applied", "error", "started_at", "finished_at")
        }
    )
    .where(_of_run, _part.tenant_id == sa.bindparam("tenant"), _part.runner_id == _runner, _is_open)
    .returning(_part.tenant_id),
    _Id,
)
_successes = sa.bindparam("successes", type_=sa.Integer)
_failures = sa.bindparam("failures", type_=sa.Integer)
_ADD_UP = Statement(
    sa.update(migration_run)
    .values(
        success_count=_run.success_count + _successes,
        failed_count=_run.failed_count + _failures,
        finished_at=sa.case(
            (
                _run.success_count + _successes + _run.failed_count + _failures == _run.total_count,
                _now,
            ),
        ),
    )
    .where(_run.id == sa.bindparam("run"), _is_unfinished)
    .returning(*_RUN_COLUMNS),
    MigrationRun,
)


async def add(
    session: CatalogSession,
    run_id: UUID,
    *,
    now: datetime,
    triggered_by: str,
    head: str | None = None,
) -> int:
    """Record a run, with one pending row for each active tenant.

    Args:
        session: A transaction on the catalog.
        run_id: Of the new run.
        now: Its start.
        triggered_by: Whose run it is, as the history tells it for ever.
        head: Where it is to bring the tenants.

    Returns:
        How many tenants are in it; a run of none has ended.
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
    )
    pending = await session.fetch_all(_ADD_PENDING, run=run_id)
    await session.execute(_START, run=run_id, total=len(pending))
    return len(pending)


async def get(session: CatalogSession, run_id: UUID) -> MigrationRun:
    """Return the run.

    Raises:
        MigrationRunNotFound: No run has this id.
    """
    run = await session.fetch_one(_FIND, run=run_id)
    if run is None:
        raise MigrationRunNotFound
    return run


async def page(session: CatalogSession, window: Window) -> Page[MigrationRun]:
    """Return some runs, the newest first."""
    items = await session.fetch_all(_PAGE, limit=window.size, offset=window.offset)
    total = await session.fetch_one(_COUNT)
    return Page(items, window, total.count if total else 0)


async def unfinished(session: CatalogSession) -> list[UnfinishedRun]:
    """Return the runs that have not ended, the oldest first."""
    return await session.fetch_all(_UNFINISHED)


async def ended(session: CatalogSession, run_id: UUID) -> list[TenantMigration]:
    """Return the parts of a run that have ended, in the order of the tenants' making."""
    return await session.fetch_all(_ENDED, run=run_id)


async def claim(
    session: CatalogSession, run_id: UUID, runner_id: UUID, *, limit: int
) -> list[TenantMigration]:
    """Take up to *limit* parts of a run that nobody living holds."""
    return await session.fetch_all(_CLAIM, run=run_id, runner=runner_id, limit=limit)


async def release(session: CatalogSession, runner_id: UUID) -> None:
    """Let others have what *runner_id* holds and has not ended."""
    await session.execute(_RELEASE, runner=runner_id)


async def record(session: CatalogSession, outcomes: Sequence[Outcome], runner_id: UUID) -> Recorded:
    """Write what became of some parts, as far as *runner_id* still holds them.

    The counts of the runs move in the same transaction, and a run ends with its last part.

    Args:
        session: A transaction on the catalog.
        outcomes: What to write.
        runner_id: Who writes.
    """
    written: Counter[tuple[UUID, str]] = Counter()
    # Everybody writes in this order (tenants, then runs, each by id), so that nobody deadlocks.
    for outcome in sorted(outcomes, key=lambda one: (one.part.tenant_id, one.part.run_id)):
        if await _record_one(session, outcome, runner_id):
            written[outcome.part.run_id, outcome.part.state] += 1
    now = max(outcome.part.finished_at for outcome in outcomes if outcome.part.finished_at)
    runs: list[MigrationRun] = []
    for run_id in sorted({run_id for run_id, _ in written}):
        runs += await session.fetch_all(
            _ADD_UP,
            run=run_id,
            now=now,
            successes=written[run_id, MigrationState.SUCCESS.value],
            failures=written[run_id, MigrationState.FAILED.value],
        )
    tenants_ = [state for _, state in written.elements()]
    return Recorded(tenants_, [run for run in runs if run.finished_at is not None])


async def _record_one(session: CatalogSession, outcome: Outcome, runner_id: UUID) -> bool:
    part = outcome.part
    held = await session.fetch_one(
        _RECORD,
        run=part.run_id,
        tenant=part.tenant_id,
        runner=runner_id,
        state=part.state,
        applied=part.applied,
        error=part.error,
        started_at=part.started_at,
        finished_at=part.finished_at,
    )
    if held is not None and outcome.schema_revision is not None:
        await tenants.set_revision(session, part.tenant_id, outcome.schema_revision)
    return held is not None
