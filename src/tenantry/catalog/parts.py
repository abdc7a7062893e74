"""The parts of a run, one for each tenant: claimed, ended, counted.

The pending parts of a run are its work list. A runner claims some at a time; one that falls
silent loses them, and only the one that holds a part may write its outcome. There is no
second copy of what is still to be done.

Parts end in transactions that hold the row of their run first, so they end one batch after
the other: the counts add up, each part gets the next number of the run's sequence, and what
follows (the next wave, the stop, the end) is decided by one of them.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import progress, tenants
from tenantry.catalog.causes import cause_of
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.progress import CANCELLED, Progress
from tenantry.catalog.runners import NOBODY, is_abandoned
from tenantry.catalog.runs import (
    MigrationRunNotFound,
    MigrationState,
    Outcome,
    TenantMigration,
)
from tenantry.catalog.tables import migration_run, tenant_migration
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.db.types import Texts, is_listed
from tenantry.kit.errors import Conflict

CLOSE_MAX = 500


class MigrationRunEnded(Conflict):
    """The migration run has ended."""


class Recorded(msgspec.Struct, frozen=True):
    """What was written down.

    Attributes:
        states: Of the parts.
        runs: How far their runs are now; also those of which nothing was written.
        ended: The runs that have ended with these parts.
    """

    states: list[str]
    runs: list[Progress]
    ended: list[Progress]


class _Number(msgspec.Struct, frozen=True):
    sequence: int


class _Named(msgspec.Struct, frozen=True):
    tenant_id: UUID
    tenant_name: str
    database_name: str


_run, _part = migration_run.c, tenant_migration.c
_PART_COLUMNS = columns_of(tenant_migration, TenantMigration)
_of_run = _part.run_id == sa.bindparam("run")
_is_open = _part.finished_at.is_(None)
_is_pending = _part.state == MigrationState.PENDING.value
_is_waiting = _part.state == MigrationState.WAITING.value
_runner = sa.bindparam("runner", type_=sa.Uuid)
_limit = sa.bindparam("limit", type_=sa.BigInteger)
_goes_on = sa.exists().where(_run.id == sa.bindparam("run"), _run.stop_reason.is_(None))


def _claim_of(*conditions: sa.ColumnElement[bool]) -> Statement[TenantMigration]:
    """Return the statement that takes the first pending parts of a run with these conditions."""
    # SQLite has one writer, and ignores the locking.
    found = (
        sa.select(_part.run_id, _part.tenant_id)
        .where(_of_run, _is_pending, *conditions)
        .order_by(_part.tenant_id)
        .limit(_limit)
        .with_for_update(skip_locked=True)
        .cte("found")  # read once: as a subquery it may be read again for every row
    )
    return Statement(
        sa.update(tenant_migration)
        .values(runner_id=_runner)
        .where(sa.tuple_(_part.run_id, _part.tenant_id).in_(sa.select(found)))
        .returning(*_PART_COLUMNS),
        TenantMigration,
    )


_is_reachable = sa.not_(is_listed(_part.server_name, sa.bindparam("away", type_=Texts)))
_CLAIM = _claim_of(_part.runner_id.is_(None), _goes_on, _is_reachable)
_CLAIM_ABANDONED = _claim_of(is_abandoned(_part.runner_id, _runner), _is_reachable)
_RELEASE = Statement[Any](
    sa.update(tenant_migration).values(runner_id=None).where(_part.runner_id == _runner, _is_open)
)
_ABANDON = Statement[Any](
    sa.update(tenant_migration)
    .values(runner_id=sa.bindparam("nobody", type_=sa.Uuid))
    .where(_part.runner_id == _runner, _is_open)
)
_FIND = Statement(
    sa.select(*columns_of(migration_run, Progress)).where(_run.id == sa.bindparam("run")), Progress
)
_LOCK = Statement(
    sa.select(*columns_of(migration_run, Progress))
    .where(_run.id == sa.bindparam("run"))
    .with_for_update(),
    Progress,
)
_finished_at = sa.bindparam("finished_at", type_=_run.finished_at.type)
_MOVE = Statement[Any](
    sa.update(migration_run)
    .values(
        {
            **parameters("success_count", "failed_count", "stop_reason", "last_sequence"),
            # Another process has started it, perhaps by another clock.
            "finished_at": sa.case(
                (_run.started_at > _finished_at, _run.started_at), else_=_finished_at
            ),
        }
    )
    .where(_run.id == sa.bindparam("run"))
)
_END = Statement[Any](
    sa.update(tenant_migration)
    .values(
        {
            **parameters("state", "applied", "error", "cause", "started_at", "finished_at"),
            "sequence": sa.bindparam("number"),
        }
    )
    .where(
        _of_run,
        _part.tenant_id == sa.bindparam("tenant"),
        _part.runner_id.is_not_distinct_from(_runner),
        _is_open,
    )
)
_ENDED_NOW = Statement(
    sa.select(_part.sequence).where(_of_run, _part.sequence > sa.bindparam("number")), _Number
)
_OPEN = Statement[Any](
    sa.update(tenant_migration)
    .values(state=MigrationState.PENDING.value)
    .where(
        sa.tuple_(_part.run_id, _part.tenant_id).in_(
            sa.select(_part.run_id, _part.tenant_id)
            .where(_of_run, _is_waiting)
            .order_by(_part.tenant_id)
            .limit(_limit)
        )
    )
)
_NEVER_CLAIMED = Statement(
    sa.select(*columns_of(tenant_migration, _Named))
    # One state, so that the index has them in their order: what has ended is not read again.
    .where(_of_run, _part.state == sa.bindparam("state"), _part.runner_id.is_(None))
    .order_by(_part.tenant_id)
    .limit(_limit)
    .with_for_update(skip_locked=True),
    _Named,
)


async def claim(
    session: CatalogSession,
    run_id: UUID,
    runner_id: UUID,
    *,
    limit: int,
    away: Collection[str] = (),
) -> list[TenantMigration]:
    """Claim up to *limit* unclaimed parts that may start; none if the run is stopped.

    Args:
        session: Of the catalog.
        run_id: Of the run.
        runner_id: Who claims.
        limit: How many at most, in the order in which the tenants were created.
        away: The servers whose tenants are left out.
    """
    found = await session.fetch_all(
        _CLAIM, run=run_id, runner=runner_id, limit=limit, away=list(away)
    )
    return sorted(found, key=lambda part: part.tenant_id)


async def claim_abandoned(
    session: CatalogSession,
    run_id: UUID,
    runner_id: UUID,
    *,
    limit: int,
    away: Collection[str] = (),
) -> list[TenantMigration]:
    """Claim up to *limit* parts that another worker returned, or a dead one held.

    It may have started them. The arguments are those of `claim`.
    """
    return await session.fetch_all(
        _CLAIM_ABANDONED, run=run_id, runner=runner_id, limit=limit, away=list(away)
    )


async def release(session: CatalogSession, runner_id: UUID) -> None:
    """Release the parts that *runner_id* has claimed and not started."""
    await session.execute(_RELEASE, runner=runner_id)


async def abandon(session: CatalogSession, runner_id: UUID) -> None:
    """Let others take over what *runner_id* holds and may have started."""
    await session.execute(_ABANDON, runner=runner_id, nobody=NOBODY)


async def progress_of(session: CatalogSession, run_id: UUID) -> Progress:
    """Return how far a run is.

    Raises:
        MigrationRunNotFound: No run has this id.
    """
    found = await session.fetch_one(_FIND, run=run_id)
    if found is None:
        raise MigrationRunNotFound
    return found


async def open_wave(session: CatalogSession, run_id: UUID, *, count: int) -> None:
    """Let the next *count* parts start that wait."""
    if count:
        await session.execute(_OPEN, run=run_id, limit=count)


async def record(session: CatalogSession, outcomes: Sequence[Outcome], runner_id: UUID) -> Recorded:
    """Write the outcomes of those parts that *runner_id* still holds.

    Args:
        session: A transaction on the catalog.
        outcomes: What to write.
        runner_id: The worker.
    """
    by_run: dict[UUID, list[Outcome]] = {}
    for outcome in outcomes:
        by_run.setdefault(outcome.part.run_id, []).append(outcome)
    # All transactions lock in this order (runs by id, parts, tenants by id) to avoid deadlocks.
    locked = [await _lock(session, run_id) for run_id in sorted(by_run)]
    written: list[Outcome] = []
    moved: list[Progress] = []
    ended: list[Progress] = []
    for before in locked:
        own, after = await _end(session, before, by_run[before.id], runner_id)
        written += own
        moved.append(after)
        if own and after.finished_at is not None:
            ended.append(after)
    seen = {one.part.tenant_id: one.schema_revision for one in written if one.schema_revision}
    await tenants.set_revisions(session, seen)
    return Recorded([one.part.state for one in written], moved, ended)


async def stop(session: CatalogSession, run_id: UUID, *, reason: str = CANCELLED) -> bool:
    """Stop a run: tenants that have not started are not attempted.

    Args:
        session: A transaction on the catalog.
        run_id: Of the run.
        reason: Why.

    Returns:
        False if it was already stopped.

    Raises:
        MigrationRunNotFound: No run has this id.
        MigrationRunEnded: It has ended.
    """
    before = await _lock(session, run_id)
    if before.finished_at is not None:
        raise MigrationRunEnded
    if before.stop_reason is not None:
        return False
    await _move(session, msgspec.structs.replace(before, stop_reason=reason))
    return True


async def close_some(session: CatalogSession, run_id: UUID, *, now: datetime) -> Recorded:
    """End up to `CLOSE_MAX` unclaimed parts of a stopped run.

    Args:
        session: A transaction on the catalog.
        run_id: Of the run.
        now: When they end.
    """
    before = await _lock(session, run_id)
    if before.stop_reason is None or before.finished_at is not None:
        return Recorded([], [before], [])
    found: list[_Named] = []
    for state in (MigrationState.PENDING, MigrationState.WAITING):
        limit = CLOSE_MAX - len(found)
        found += await session.fetch_all(_NEVER_CLAIMED, run=run_id, state=state.value, limit=limit)
    closed = [_not_attempted(before, one, now) for one in found]
    _, after = await _end(session, before, closed, None)
    ended = [after] if closed and after.finished_at is not None else []
    return Recorded([MigrationState.FAILED.value] * len(closed), [after], ended)


def _not_attempted(run: Progress, part: _Named, now: datetime) -> Outcome:
    closed = TenantMigration(
        run_id=run.id,
        tenant_id=part.tenant_id,
        tenant_name=part.tenant_name,
        database_name=part.database_name,
        server_name="",
        state=MigrationState.FAILED.value,
        applied="",
        error=run.stop_reason,
        started_at=now,
        finished_at=now,
    )
    return Outcome(closed, None)


async def _lock(session: CatalogSession, run_id: UUID) -> Progress:
    found = await session.fetch_one(_LOCK, run=run_id)
    if found is None:
        raise MigrationRunNotFound
    return found


async def _end(
    session: CatalogSession, before: Progress, outcomes: Sequence[Outcome], holder: UUID | None
) -> tuple[list[Outcome], Progress]:
    """End the parts of one run that *holder* has; return which, and how far the run is then."""
    last = before.last_sequence or 0
    rows = [_row(one, last + at, holder) for at, one in enumerate(outcomes, 1)]
    await session.execute_many(_END, rows)
    # By its number, not by its tenant: a runner that was silent, lost a part to another, and
    # took it over again comes with two outcomes of it.
    ended = {
        one.sequence for one in await session.fetch_all(_ENDED_NOW, run=before.id, number=last)
    }
    written = [one for at, one in enumerate(outcomes, 1) if last + at in ended]
    if not written:
        return [], before
    failures = sum(one.part.state == MigrationState.FAILED.value for one in written)
    step = progress.advance(
        before,
        successes=len(written) - failures,
        failures=failures,
        last_sequence=last + len(outcomes),
        now=max(one.part.finished_at for one in written if one.part.finished_at),
    )
    await _move(session, step.progress)
    await open_wave(session, before.id, count=step.opens)
    return written, step.progress


def _row(outcome: Outcome, number: int, holder: UUID | None) -> dict[str, object]:
    part = outcome.part
    names = (part.tenant_name, part.database_name)
    return {
        "run": part.run_id,
        "tenant": part.tenant_id,
        "runner": holder,
        "number": number,
        "state": part.state,
        "applied": part.applied,
        "error": part.error,
        "cause": None if part.error is None else cause_of(part.error, names),
        "started_at": part.started_at,
        "finished_at": part.finished_at,
    }


async def _move(session: CatalogSession, after: Progress) -> None:
    await session.execute(
        _MOVE,
        run=after.id,
        success_count=after.success_count,
        failed_count=after.failed_count,
        finished_at=after.finished_at,
        stop_reason=after.stop_reason,
        last_sequence=after.last_sequence,
    )
