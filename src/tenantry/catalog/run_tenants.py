"""The items of a run, one for each tenant: start them in waves, and write their outcomes.

Only the worker that holds an item may write its outcome: see `run_claims`.

A transaction that ends items first locks the row of their run, so these transactions are
serialized: the counts are exact, each item gets the next number of the run's sequence, and
exactly one transaction starts the next wave, stops the run, or ends it. The functions take such a
transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import holds, notices, run_progress
from tenantry.catalog.outbox import Notice
from tenantry.catalog.pace import PACE
from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import (
    CANCELLED,
    MigrationRunNotFound,
    MigrationState,
    Outcome,
    Progress,
    is_open,
    of_run,
)
from tenantry.catalog.session import CatalogSession, Value, fetch_or_raise, fetch_values
from tenantry.catalog.tables import tenant
from tenantry.catalog.waves import is_waiting
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.kit.errors import Conflict


class MigrationRunEnded(Conflict):
    """The migration run has ended."""


class RunNotHolding(Conflict):
    """The run is not holding after this wave: show it, and continue the wave that it shows."""


class Recorded(msgspec.Struct, frozen=True):
    """The result of writing outcomes.

    Attributes:
        states: The states of the written items.
        runs: The progress of their runs, including runs of which no item was written.
        ended: The runs that have ended with these items.
        notices: What is to be told of the runs, in the same transaction.
    """

    states: list[str]
    runs: list[Progress]
    ended: list[Progress]
    notices: Sequence[Notice] = ()


_run, _item = migration_run.c, tenant_migration.c
_worker = sa.bindparam("worker", type_=sa.Uuid)
_LOCK = Statement(
    sa.select(*columns_of(migration_run, Progress))
    .where(_run.id == sa.bindparam("run"))
    .with_for_update(),
    Progress,
)
_MOVED = (
    "success_count",
    "failed_count",
    "not_attempted_count",
    "finished_at",
    "stop_reason",
    "last_sequence",
    "unopened_count",
    "wave_failed_max",
    "holding_wave",
    "check_error",
)
_MOVE = Statement[Any](
    sa.update(migration_run).values(parameters(*_MOVED)).where(_run.id == sa.bindparam("run"))
)
_ENDED = ("state", "applied", "error", "cause", "started_at", "finished_at")
_END = Statement[Any](
    sa.update(tenant_migration)
    .values(sequence=sa.bindparam("number"), **parameters(*_ENDED))
    .where(
        of_run,
        _item.tenant_id == sa.bindparam("tenant"),
        _item.worker_id == _worker,
        is_open,
    )
)
_ENDED_NOW = Statement(
    sa.select(_item.sequence.label("value")).where(of_run, _item.sequence > sa.bindparam("number")),
    Value,
)
_OPEN = Statement[Any](
    sa.update(tenant_migration)
    .values(state=MigrationState.PENDING.value)
    .where(
        sa.tuple_(_item.run_id, _item.tenant_id).in_(
            sa.select(_item.run_id, _item.tenant_id)
            .where(of_run, is_waiting)
            .order_by(_item.wave, _item.sort_key, _item.tenant_id)
            .limit(LIMIT)
        )
    )
)
# One state, so that the index returns them in order: ended items are not read again.
_never_claimed = (
    sa.select(_item.run_id, _item.tenant_id)
    .where(of_run, _item.state == sa.bindparam("before"), _item.worker_id.is_(None))
    .order_by(_item.tenant_id)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
    .cte("never_claimed")
)
_numbered = sa.select(
    *_never_claimed.c,
    sa.func.row_number().over(order_by=_never_claimed.c.tenant_id).label("number"),
).cte("numbered")
_reason = sa.bindparam("reason", type_=sa.String)
_at = sa.bindparam("at", type_=_item.finished_at.type)
_CLOSE = Statement(
    sa.update(tenant_migration)
    .values(
        state=MigrationState.FAILED.value,
        applied="",
        error=_reason,
        cause=_reason,
        started_at=_at,
        finished_at=_at,
        sequence=sa.bindparam("number", type_=sa.Integer) + _numbered.c.number,
    )
    .where(_item.run_id == _numbered.c.run_id, _item.tenant_id == _numbered.c.tenant_id)
    .returning(_item.sequence.label("value")),
    Value,
)
# What the latest attempt has shown: the revision, if it is known, and the run if it failed.
_seen = sa.func.coalesce(sa.bindparam("revision", type_=sa.String), tenant.c.schema_revision)
_failing = sa.bindparam("failing_run_id", type_=sa.Uuid)
_SET_ATTEMPT = Statement[Any](
    sa.update(tenant)
    .values(schema_revision=_seen, failing_run_id=_failing)
    .where(
        tenant.c.id == sa.bindparam("tenant"),
        sa.or_(
            tenant.c.schema_revision.is_distinct_from(_seen),
            tenant.c.failing_run_id.is_distinct_from(_failing),
        ),
    )
)
# Not after a COMMIT whose answer was lost, and not if the tenant has another database since.
_FORGET_REVISION = Statement[Any](
    sa.update(tenant)
    .values(schema_revision=None)
    .where(
        tenant.c.id == sa.bindparam("tenant"),
        tenant.c.database_name == sa.bindparam("database_name"),
        tenant.c.server_name == sa.bindparam("server_name"),
        tenant.c.schema_revision.is_distinct_from(sa.bindparam("revision", type_=sa.String)),
        sa.exists().where(
            of_run, _item.tenant_id == tenant.c.id, _item.worker_id.is_distinct_from(_worker)
        ),
    )
)


async def open_batch(
    session: CatalogSession, run_id: UUID, *, limit: int = PACE.opened_max
) -> None:
    """Allow up to *limit* more items of the waves that have begun to start."""
    before = await _lock(session, run_id)
    if before.unopened_count and before.stop_reason is None:
        await _move(session, await _open_batch(session, before, limit))


async def record(
    session: CatalogSession,
    outcomes: Sequence[Outcome],
    worker_id: UUID,
    *,
    opened_max: int = PACE.opened_max,
) -> Recorded:
    """Write the outcomes of those items that *worker_id* still holds.

    Another process may have seen a tenant before this one changed it: if the revision of an outcome
    that comes too late is not the last one seen, the tenant's is unknown.

    If a wave begins, up to *opened_max* of its items may start at once.
    """
    by_run: dict[UUID, list[Outcome]] = {}
    for outcome in outcomes:
        by_run.setdefault(outcome.item.run_id, []).append(outcome)
    # All transactions lock in this order (runs by id, items, tenants by id) to avoid deadlocks.
    locked = [await _lock(session, run_id) for run_id in sorted(by_run)]
    written: list[Outcome] = []
    moved: list[Progress] = []
    ended: list[Progress] = []
    told: list[Notice] = []
    late: dict[UUID, Outcome] = {}
    for before in locked:
        own, after = await _end(session, before, by_run[before.id], worker_id, opened_max)
        if len(own) < len(by_run[before.id]):
            others = (one for one in by_run[before.id] if one not in own and one.item.is_attempted)
            late |= {one.item.tenant_id: one for one in others}
        written += own
        moved.append(after)
        told += notices.of_run(before, after, own)
        if own and after.finished_at is not None:
            ended.append(after)
    attempts = {one.item.tenant_id: _attempt(one) for one in written if one.item.is_attempted}
    if late:
        seen = [_seen_late(late[one], worker_id) for one in sorted(late)]
        await session.execute_many(_FORGET_REVISION, seen)
    await session.execute_many(_SET_ATTEMPT, [attempts[one] for one in sorted(attempts)])
    return Recorded([one.item.state for one in written], moved, ended, told)


async def stop(session: CatalogSession, run_id: UUID, *, reason: str = CANCELLED) -> bool:
    """Stop a run: tenants that have not started are not attempted, with *reason* as the error.

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
    await _move(
        session,
        msgspec.structs.replace(before, stop_reason=reason, holding_wave=None, check_error=None),
    )
    return True


async def resume(
    session: CatalogSession, run_id: UUID, *, wave: int, limit: int = PACE.opened_max
) -> None:
    """Start the next wave of a run that holds after *wave*: up to *limit* of its items at once.

    Raises:
        MigrationRunNotFound: No run has this id.
        RunNotHolding: It does not hold after this wave, perhaps no longer.
    """
    before = await _lock(session, run_id)
    if before.holding_wave != wave:
        raise RunNotHolding
    await _move(session, await _open_batch(session, run_progress.resume(before), limit))


async def close_batch(
    session: CatalogSession, run_id: UUID, *, now: datetime, limit: int = PACE.closed_max
) -> Recorded:
    """End up to *limit* unclaimed items of a stopped run."""
    before = await _lock(session, run_id)
    if before.stop_reason is None or before.finished_at is not None:
        return Recorded([], [before], [])
    count, last = 0, before.last_sequence or 0
    for state in (MigrationState.PENDING, MigrationState.WAITING):
        closed = await session.fetch_all(
            _CLOSE,
            run=run_id,
            before=state.value,
            limit=limit - count,
            reason=before.stop_reason,
            at=now,
            number=last + count,
        )
        count += len(closed)
    if not count:
        return Recorded([], [before], [])
    after = run_progress.advance(
        before,
        successes=0,
        failures=count,
        not_attempted=count,
        last_sequence=last + count,
        now=now,
    )
    await _move(session, after)
    ended = [] if after.finished_at is None else [after]
    states = [MigrationState.FAILED.value] * count
    return Recorded(states, [after], ended, notices.of_run(before, after))


async def _lock(session: CatalogSession, run_id: UUID) -> Progress:
    return await fetch_or_raise(session, _LOCK, MigrationRunNotFound, run=run_id)


async def _end(
    session: CatalogSession,
    before: Progress,
    outcomes: Sequence[Outcome],
    holder: UUID,
    opened_max: int,
) -> tuple[list[Outcome], Progress]:
    """End the items of one run that *holder* has; return them and the run's progress."""
    last = before.last_sequence or 0
    rows = [_row(one, last + at, holder) for at, one in enumerate(outcomes, 1)]
    await session.execute_many(_END, rows)
    # By its number, not by its tenant: a worker that was silent, lost an item to another, and
    # took it over again comes with two outcomes of it.
    ended = set(await fetch_values(session, _ENDED_NOW, run=before.id, number=last))
    written = [one for at, one in enumerate(outcomes, 1) if last + at in ended]
    if not written:
        return [], before
    failures = sum(one.item.state == MigrationState.FAILED.value for one in written)
    after = run_progress.advance(
        before,
        successes=len(written) - failures,
        failures=failures,
        not_attempted=sum(not one.item.is_attempted for one in written),
        last_sequence=last + len(outcomes),
        now=max(one.item.finished_at for one in written if one.item.finished_at),
    )
    if after.unopened_count > before.unopened_count:  # a wave begins
        after = await _open_batch(session, after, opened_max)
    await _move(session, after)
    if after.holding_wave is not None:
        await holds.began(session, after)
    return written, after


async def _open_batch(session: CatalogSession, run: Progress, limit: int) -> Progress:
    count = min(run.unopened_count, limit)
    await session.execute(_OPEN, run=run.id, limit=count)
    return msgspec.structs.replace(run, unopened_count=run.unopened_count - count)


def _row(outcome: Outcome, number: int, holder: UUID) -> dict[str, object]:
    item = outcome.item
    keys = {"run": item.run_id, "tenant": item.tenant_id, "worker": holder, "number": number}
    return keys | {name: getattr(item, name) for name in _ENDED}


def _attempt(outcome: Outcome) -> dict[str, object]:
    item = outcome.item
    is_failed = item.state == MigrationState.FAILED.value
    return {
        "tenant": item.tenant_id,
        "revision": outcome.schema_revision,
        "failing_run_id": item.run_id if is_failed else None,
    }


def _seen_late(outcome: Outcome, holder: UUID) -> dict[str, object]:
    item = outcome.item
    return {
        "run": item.run_id,
        "tenant": item.tenant_id,
        "database_name": item.database_name,
        "server_name": item.server_name,
        "revision": outcome.schema_revision,
        "worker": holder,
    }


async def _move(session: CatalogSession, after: Progress) -> None:
    await session.execute(_MOVE, run=after.id, **{name: getattr(after, name) for name in _MOVED})
