"""The items of a run, one for each tenant: claim them, and write their outcomes.

The pending items of a run are its work queue. A worker claims some at a time, and loses them
without a heartbeat. Only the worker that holds an item may write its outcome.

A transaction that ends items first locks the row of their run, so these transactions are
serialized: the counts are exact, each item gets the next number of the run's sequence, and
exactly one transaction starts the next wave, stops the run, or ends it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import latest_attempts, progress
from tenantry.catalog.latest_attempts import Attempt
from tenantry.catalog.progress import CANCELLED, Progress
from tenantry.catalog.runs import (
    MigrationRunNotFound,
    MigrationState,
    Outcome,
    RunTenant,
)
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import migration_run, tenant_migration
from tenantry.catalog.workers import NO_WORKER, is_abandoned
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.db.types import Texts, is_listed
from tenantry.kit.errors import Conflict

CLOSE_MAX = 500


class MigrationRunEnded(Conflict):
    """The migration run has ended."""


class Recorded(msgspec.Struct, frozen=True):
    """The result of writing outcomes.

    Attributes:
        states: The states of the written items.
        runs: The progress of their runs, including runs of which no item was written.
        ended: The runs that have ended with these items.
    """

    states: list[str]
    runs: list[Progress]
    ended: list[Progress]


class _Number(msgspec.Struct, frozen=True):
    sequence: int


class _TenantId(msgspec.Struct, frozen=True):
    tenant_id: UUID


_run, _item = migration_run.c, tenant_migration.c
_ITEM_COLUMNS = columns_of(tenant_migration, RunTenant)
_of_run = _item.run_id == sa.bindparam("run")
_is_open = _item.finished_at.is_(None)
_is_pending = _item.state == MigrationState.PENDING.value
_is_waiting = _item.state == MigrationState.WAITING.value
_worker = sa.bindparam("worker", type_=sa.Uuid)
_limit = sa.bindparam("limit", type_=sa.BigInteger)
_goes_on = sa.exists().where(_run.id == sa.bindparam("run"), _run.stop_reason.is_(None))


def _claim_of(*conditions: sa.ColumnElement[bool]) -> Statement[RunTenant]:
    """Return the statement that claims the first pending items that meet *conditions*."""
    # SQLite has one writer, and ignores the locking.
    found = (
        sa.select(_item.run_id, _item.tenant_id)
        .where(_of_run, _is_pending, *conditions)
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


_is_reachable = sa.not_(is_listed(_item.server_name, sa.bindparam("away", type_=Texts)))
_CLAIM = _claim_of(_item.worker_id.is_(None), _goes_on, _is_reachable)
_CLAIM_ABANDONED = _claim_of(is_abandoned(_item.worker_id, _worker), _is_reachable)
_RELEASE = Statement[Any](
    sa.update(tenant_migration).values(worker_id=None).where(_item.worker_id == _worker, _is_open)
)
_ABANDON = Statement[Any](
    sa.update(tenant_migration)
    .values(worker_id=sa.bindparam("no_worker", type_=sa.Uuid))
    .where(_item.worker_id == _worker, _is_open)
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
            "not_attempted_count": _run.not_attempted_count
            + sa.bindparam("not_attempted", type_=sa.Integer),
            # The item was started by another process, perhaps with another clock.
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
        _item.tenant_id == sa.bindparam("tenant"),
        _item.worker_id.is_not_distinct_from(_worker),
        _is_open,
    )
)
_ENDED_NOW = Statement(
    sa.select(_item.sequence).where(_of_run, _item.sequence > sa.bindparam("number")), _Number
)
_OPEN = Statement[Any](
    sa.update(tenant_migration)
    .values(state=MigrationState.PENDING.value)
    .where(
        sa.tuple_(_item.run_id, _item.tenant_id).in_(
            sa.select(_item.run_id, _item.tenant_id)
            .where(_of_run, _is_waiting)
            .order_by(_item.tenant_id)
            .limit(_limit)
        )
    )
)
_NEVER_CLAIMED = Statement(
    sa.select(_item.tenant_id)
    # One state, so that the index returns them in order: ended items are not read again.
    .where(_of_run, _item.state == sa.bindparam("state"), _item.worker_id.is_(None))
    .order_by(_item.tenant_id)
    .limit(_limit)
    .with_for_update(skip_locked=True),
    _TenantId,
)


async def claim(
    session: CatalogSession,
    run_id: UUID,
    worker_id: UUID,
    *,
    limit: int,
    away: Collection[str] = (),
) -> list[RunTenant]:
    """Claim up to *limit* unclaimed items that may start; none if the run is stopped.

    Args:
        session: A session of the catalog.
        run_id: The id of the run.
        worker_id: The worker that claims.
        limit: The most items, in the order in which the tenants were created.
        away: Servers that are away; their tenants are not claimed.
    """
    found = await session.fetch_all(
        _CLAIM, run=run_id, worker=worker_id, limit=limit, away=list(away)
    )
    return sorted(found, key=lambda item: item.tenant_id)


async def claim_abandoned(
    session: CatalogSession,
    run_id: UUID,
    worker_id: UUID,
    *,
    limit: int,
    away: Collection[str] = (),
) -> list[RunTenant]:
    """Claim up to *limit* items that another worker returned, or a dead worker held.

    They may have been started. The arguments are those of `claim`.
    """
    return await session.fetch_all(
        _CLAIM_ABANDONED, run=run_id, worker=worker_id, limit=limit, away=list(away)
    )


async def release(session: CatalogSession, worker_id: UUID) -> None:
    """Release the items that *worker_id* has claimed and not started."""
    await session.execute(_RELEASE, worker=worker_id)


async def abandon(session: CatalogSession, worker_id: UUID) -> None:
    """Give up the items that *worker_id* holds and may have started, for other workers."""
    await session.execute(_ABANDON, worker=worker_id, no_worker=NO_WORKER)


async def progress_of(session: CatalogSession, run_id: UUID) -> Progress:
    """Return the progress of a run.

    Raises:
        MigrationRunNotFound: No run has this id.
    """
    found = await session.fetch_one(_FIND, run=run_id)
    if found is None:
        raise MigrationRunNotFound
    return found


async def open_wave(session: CatalogSession, run_id: UUID, *, count: int) -> None:
    """Allow the next *count* waiting items to start."""
    if count:
        await session.execute(_OPEN, run=run_id, limit=count)


async def record(session: CatalogSession, outcomes: Sequence[Outcome], worker_id: UUID) -> Recorded:
    """Write the outcomes of those items that *worker_id* still holds.

    Args:
        session: A transaction on the catalog.
        outcomes: The outcomes to write.
        worker_id: The worker.
    """
    by_run: dict[UUID, list[Outcome]] = {}
    for outcome in outcomes:
        by_run.setdefault(outcome.item.run_id, []).append(outcome)
    # All transactions lock in this order (runs by id, items, tenants by id) to avoid deadlocks.
    locked = [await _lock(session, run_id) for run_id in sorted(by_run)]
    written: list[Outcome] = []
    moved: list[Progress] = []
    ended: list[Progress] = []
    for before in locked:
        own, after = await _end(session, before, by_run[before.id], worker_id)
        written += own
        moved.append(after)
        if own and after.finished_at is not None:
            ended.append(after)
    attempts = {one.item.tenant_id: _attempt(one) for one in written if one.item.is_attempted}
    await latest_attempts.set_attempts(session, attempts)
    return Recorded([one.item.state for one in written], moved, ended)


async def stop(session: CatalogSession, run_id: UUID, *, reason: str = CANCELLED) -> bool:
    """Stop a run: tenants that have not started are not attempted.

    Args:
        session: A transaction on the catalog.
        run_id: The id of the run.
        reason: The error of the tenants that are not attempted.

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


async def close_batch(session: CatalogSession, run_id: UUID, *, now: datetime) -> Recorded:
    """End up to `CLOSE_MAX` unclaimed items of a stopped run.

    Args:
        session: A transaction on the catalog.
        run_id: The id of the run.
        now: When they end.
    """
    before = await _lock(session, run_id)
    if before.stop_reason is None or before.finished_at is not None:
        return Recorded([], [before], [])
    found: list[_TenantId] = []
    for state in (MigrationState.PENDING, MigrationState.WAITING):
        limit = CLOSE_MAX - len(found)
        found += await session.fetch_all(_NEVER_CLAIMED, run=run_id, state=state.value, limit=limit)
    closed = [_not_attempted(before, one, now) for one in found]
    _, after = await _end(session, before, closed, None)
    ended = [after] if closed and after.finished_at is not None else []
    return Recorded([MigrationState.FAILED.value] * len(closed), [after], ended)


def _not_attempted(run: Progress, item: _TenantId, now: datetime) -> Outcome:
    closed = RunTenant(
        run_id=run.id,
        tenant_id=item.tenant_id,
        tenant_name="",
        database_name="",
        server_name="",
        state=MigrationState.FAILED.value,
        applied="",
        error=run.stop_reason,
        started_at=now,
        finished_at=now,
        cause=run.stop_reason,
    )
    return Outcome(closed)


async def _lock(session: CatalogSession, run_id: UUID) -> Progress:
    found = await session.fetch_one(_LOCK, run=run_id)
    if found is None:
        raise MigrationRunNotFound
    return found


async def _end(
    session: CatalogSession, before: Progress, outcomes: Sequence[Outcome], holder: UUID | None
) -> tuple[list[Outcome], Progress]:
    """End the items of one run that *holder* has; return them and the run's progress."""
    last = before.last_sequence or 0
    rows = [_row(one, last + at, holder) for at, one in enumerate(outcomes, 1)]
    await session.execute_many(_END, rows)
    # By its number, not by its tenant: a worker that was silent, lost an item to another, and
    # took it over again comes with two outcomes of it.
    ended = {
        one.sequence for one in await session.fetch_all(_ENDED_NOW, run=before.id, number=last)
    }
    written = [one for at, one in enumerate(outcomes, 1) if last + at in ended]
    if not written:
        return [], before
    failures = sum(one.item.state == MigrationState.FAILED.value for one in written)
    step = progress.advance(
        before,
        successes=len(written) - failures,
        failures=failures,
        last_sequence=last + len(outcomes),
        now=max(one.item.finished_at for one in written if one.item.finished_at),
    )
    skipped = sum(not one.item.is_attempted for one in written)
    await _move(session, step.progress, not_attempted=skipped)
    await open_wave(session, before.id, count=step.opens)
    return written, step.progress


def _row(outcome: Outcome, number: int, holder: UUID | None) -> dict[str, object]:
    item = outcome.item
    return {
        "run": item.run_id,
        "tenant": item.tenant_id,
        "worker": holder,
        "number": number,
        "state": item.state,
        "applied": item.applied,
        "error": item.error,
        "cause": item.cause,
        "started_at": item.started_at,
        "finished_at": item.finished_at,
    }


def _attempt(outcome: Outcome) -> Attempt:
    item = outcome.item
    is_failed = item.state == MigrationState.FAILED.value
    return Attempt(outcome.schema_revision, item.run_id if is_failed else None)


async def _move(session: CatalogSession, after: Progress, *, not_attempted: int = 0) -> None:
    await session.execute(
        _MOVE,
        run=after.id,
        success_count=after.success_count,
        failed_count=after.failed_count,
        finished_at=after.finished_at,
        stop_reason=after.stop_reason,
        last_sequence=after.last_sequence,
        not_attempted=not_attempted,
    )
