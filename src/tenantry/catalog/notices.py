"""What targets are notified of: the events of runs and servers, as sentences and as data."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog import outbox, runs
from tenantry.catalog.outbox import Notice, Subscribed
from tenantry.catalog.run_tables import migration_run
from tenantry.catalog.runs import MigrationRun, Outcome, Progress
from tenantry.catalog.session import CatalogSession, RowId
from tenantry.db.statements import Statement
from tenantry.kit.hook_events import (
    RUN_ENDED,
    RUN_FIRST_FAILURE,
    RUN_HOLDING,
    RUN_STARTED,
    RUN_WAVE_ENDED,
    SERVER_AWAY,
    SERVER_BACK,
)

# Processes that notice an outage in the same minute queue it once.
SERVER_KEY_MS = 60_000

_run = migration_run.c
_held = sa.bindparam("reason", type_=sa.String)
_set_held = sa.update(migration_run).values(held_reason=_held).where(_run.id == sa.bindparam("run"))
_HOLD = Statement[Any](_set_held.where(_run.held_reason.is_distinct_from(_held)))
_may_start = sa.and_(_run.finished_at.is_(None), _run.stop_reason.is_(None))
_BEGIN_HOLD = Statement(
    _set_held.where(_run.held_reason.is_(None), _may_start).returning(_run.id), RowId
)


def of_run(before: Progress, after: Progress, ended: Sequence[Outcome] = ()) -> list[Notice]:
    """Return what is to be told of a run after the outcomes *ended*, in order."""
    found = []
    failed = next((one.item for one in ended if one.item.error and one.item.is_attempted), None)
    if failed is not None and before.failed_count == before.not_attempted_count:
        text = f"the first database has failed: {failed.tenant_name}: {failed.cause}"
        more = {"tenantName": failed.tenant_name, "cause": failed.cause}
        found.append(_notice(RUN_FIRST_FAILURE, after, text, **more))
    if after.finished_at is not None and before.finished_at is None:
        text = f"ended, {after.state.value}: {_counts(after)}"
        found.append(_notice(RUN_ENDED, after, text, stopReason=after.stop_reason))
    elif (
        before.waves is not None
        and before.stop_reason is None
        and before.ended_count < before.opened_count <= after.ended_count
    ):
        wave = sum(size <= after.ended_count for size in before.waves)
        left = after.total_count - after.ended_count
        text = f"wave {wave} of {len(before.waves)} has ended: {_counts(after)}, {left} left"
        found.append(_notice(RUN_WAVE_ENDED, after, text, wave=wave, waveCount=len(before.waves)))
        if after.holding_wave is not None:
            found.append(_holding(after))
    return found


async def run_begins(
    session: CatalogSession, subscribed: Subscribed, run_id: UUID, *, now: datetime
) -> None:
    """Queue that a run has started, in the transaction that shows it."""
    if subscribed:
        run = await runs.get(session, run_id)
        started = _notice(
            RUN_STARTED, run, f"started by {run.triggered_by}: {run.total_count} databases"
        )
        ended = [] if run.finished_at is None else [_notice(RUN_ENDED, run, "ended: no databases")]
        await outbox.add(session, subscribed, [started, *ended], now=now)


async def hold(
    session: CatalogSession,
    subscribed: Subscribed,
    run_id: UUID,
    reason: str | None,
    *,
    now: datetime,
) -> None:
    """Store, in a transaction, why no process works on a run; None when one does.

    Targets are notified if it was not held before, and has neither ended nor been stopped.
    """
    if reason is None or not await session.fetch_one(_BEGIN_HOLD, run=run_id, reason=reason):
        await session.execute(_HOLD, run=run_id, reason=reason)
    elif subscribed:
        run = await runs.get(session, run_id)
        await outbox.add(session, subscribed, [_holding(run, reason)], now=now)


async def left_to_person(
    session: CatalogSession, subscribed: Subscribed, run_id: UUID, *, now: datetime
) -> None:
    """Queue that the check of a run that holds has failed."""
    if subscribed:
        run = await runs.get(session, run_id)
        await outbox.add(session, subscribed, [_holding(run)], now=now)


def of_server(server_name: str, *, is_away: bool, at_ms: int) -> Notice:
    """Return the notice that a server is away, or is back, at a time of the database's clock."""
    event = SERVER_AWAY if is_away else SERVER_BACK
    text = f"Server {server_name} is {'away: its databases wait' if is_away else 'back'}."
    key = f"{event} {server_name} {at_ms // SERVER_KEY_MS}"
    return Notice(event, {"text": text, "serverName": server_name}, key)


def _holding(run: MigrationRun, reason: str | None = None) -> Notice:
    reason = reason or run.held_because
    return _notice(RUN_HOLDING, run, f"holding: {reason}", reason=reason, wave=run.holding_wave)


def _counts(run: MigrationRun) -> str:
    text = f"{run.success_count} succeeded, {run.failed_count - run.not_attempted_count} failed"
    return f"{text}, {run.not_attempted_count} not attempted" if run.not_attempted_count else text


def _notice(event: str, run: MigrationRun, text: str, **more: object) -> Notice:
    name = f"{run.label} ({run.id})" if run.label else str(run.id)
    data = {
        "text": f"Migration run {name}: {text.rstrip('.')}.",
        "runId": run.id,
        "label": run.label,
        "state": run.state.value,
        "totalCount": run.total_count,
        "successCount": run.success_count,
        "failedCount": run.failed_count,
        "notAttemptedCount": run.not_attempted_count,
    }
    return Notice(event, data | more)
