"""The outbox of notifications: rows, written with what they report, and delivered later.

A transaction that changes a run adds the notifications of the change, so a kill loses none. They
are not jobs: one that its process has not delivered is sent again by another process, after a
pause, and an admin neither requests nor cancels it. A process claims one for its delivery; when
the process has no heartbeat, others claim it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession, RowId
from tenantry.catalog.tables import notification
from tenantry.catalog.workers import is_abandoned
from tenantry.db.statements import Statement, columns_of, insert, parameters
from tenantry.db.types import database_clock_ms
from tenantry.kit.ids import new_id

QUEUED_MAX = 100
"""Notifications that wait for one target; at more, the oldest are dropped."""
ENDED_MAX = 200
"""Notifications of one target that are kept after their end."""
ATTEMPTS_MAX = 30
AGE_MAX = timedelta(days=1)
"""For how long a notification is tried."""

Subscribed = Mapping[str, Collection[str]]
"""The events that each target gets, by the target's name."""


class State(StrEnum):
    """The state of a notification."""

    QUEUED = "queued"
    DELIVERED = "delivered"
    FAILED = "failed"
    DROPPED = "dropped"


class Notice(msgspec.Struct, frozen=True):
    """Something that targets are notified of.

    Attributes:
        event: Its kind, such as ``run.ended``.
        data: Its data in the message, as JSON can hold it; ``text`` is a sentence for people.
        key: Of two notices with the same one, the second is not queued.
        at: When it happened, if not when it is queued.
    """

    event: str
    data: Mapping[str, object]
    key: str | None = None
    at: datetime | None = None


class Message(msgspec.Struct, frozen=True):
    """A notification that is to be delivered."""

    id: UUID
    event: str
    payload: str
    created_at: datetime
    attempts: int


class Counts(msgspec.Struct, frozen=True):
    """How many notifications of a target there are, with the kept ones that have ended.

    Attributes:
        oldest_at: When the oldest queued one was queued.
    """

    target: str
    queued: int = 0
    delivered: int = 0
    failed: int = 0
    dropped: int = 0
    oldest_at: datetime | None = None


class Attempt(msgspec.Struct, frozen=True):
    """The last attempt to deliver something to a target."""

    event: str
    state: str
    attempted_at: datetime
    result: str


_row = notification.c
# Not as a parameter, which would be planned without its value.
_is_queued = _row.state == sa.literal_column(f"'{State.QUEUED.value}'")
_worker = sa.bindparam("worker", type_=sa.Uuid)
_target = sa.bindparam("target", type_=sa.String)
_now = database_clock_ms()
_ADDED = ("id", "target", "event", "payload", "created_at", "key")
_ADD = Statement[Any](
    insert(notification)
    .values(state=State.QUEUED.value, **parameters(*_ADDED))
    .on_conflict_do_nothing(index_elements=[_row.target, _row.key])
)
_is_due = sa.and_(
    _is_queued,
    _row.target == _target,
    _row.next_at_ms <= _now,
    # This process delivers one at a time to a target: what it holds otherwise was interrupted.
    sa.or_(
        _row.worker_id.is_(None), _row.worker_id == _worker, is_abandoned(_row.worker_id, _worker)
    ),
)
_due = sa.select(_row.id).where(_is_due).order_by(_row.id).limit(1)
_DUE = Statement(_due, RowId)
_CLAIM = Statement(
    sa.update(notification)
    .values(worker_id=_worker)
    .where(_row.id == _due.with_for_update(skip_locked=True).scalar_subquery(), _is_queued)
    .returning(*columns_of(notification, Message)),
    Message,
)
_END = Statement[Any](
    sa.update(notification)
    .values(
        attempts=_row.attempts + 1,
        next_at_ms=_now + sa.bindparam("pause_ms", type_=sa.BigInteger),
        worker_id=None,
        **parameters("state", "attempted_at", "result"),
    )
    .where(_row.id == sa.bindparam("message"), _row.worker_id == _worker, _is_queued)
)


def _after_newest(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query of those rows that are not among the newest `kept` of their target."""
    number = sa.func.row_number().over(partition_by=_row.target, order_by=_row.id.desc())
    found = sa.select(_row.id, number.label("number")).where(*conditions).subquery()
    return sa.select(found.c.id).where(found.c.number > sa.bindparam("kept", type_=sa.BigInteger))


_DROP = Statement[Any](
    sa.update(notification)
    .values(state=State.DROPPED.value)
    .where(_row.id.in_(_after_newest(_is_queued)), _is_queued, _row.worker_id.is_(None))
)
# Also those of a target that is no longer in the settings.
_EXPIRE = Statement[Any](
    sa.update(notification)
    .values(state=State.FAILED.value)
    .where(_is_queued, _row.created_at < sa.bindparam("before"), _row.worker_id.is_(None))
)
_PRUNE = Statement[Any](
    sa.delete(notification).where(_row.id.in_(_after_newest(~_is_queued)), ~_is_queued)
)
_COUNT = Statement(
    sa.select(
        _row.target,
        *(
            sa.func.count(sa.case((_row.state == state.value, 1))).label(state.value)
            for state in State
        ),
        sa.func.min(sa.case((_is_queued, _row.created_at))).label("oldest_at"),
    ).group_by(_row.target),
    Counts,
)
_LAST = Statement(
    sa.select(*columns_of(notification, Attempt))
    .where(_row.target == _target, _row.attempted_at.is_not(None))
    .order_by(_row.attempted_at.desc(), _row.id.desc())
    .limit(1),
    Attempt,
)


async def add(
    session: CatalogSession, subscribed: Subscribed, notices: Sequence[Notice], *, now: datetime
) -> None:
    """Queue notices for the targets that get them, in the transaction of what they report."""
    rows = [
        {
            "id": new_id(),
            "target": target,
            "event": one.event,
            "payload": payload_of(one, now=now),
            "created_at": now,
            "key": one.key,
        }
        for one in notices
        for target, events in subscribed.items()
        if one.event in events
    ]
    if rows:
        await session.execute_many(_ADD, rows)


def payload_of(notice: Notice, *, now: datetime) -> str:
    """Return the body of a message, in the form of Standard Webhooks."""
    body = {"type": notice.event, "timestamp": notice.at or now, "data": notice.data}
    return msgspec.json.encode(body).decode()


async def is_due(session: CatalogSession, target: str, *, worker_id: UUID) -> bool:
    """Return whether *worker_id* can deliver something to a target now, or does."""
    return await session.fetch_one(_DUE, target=target, worker=worker_id) is not None


async def claim(session: CatalogSession, target: str, *, worker_id: UUID) -> Message | None:
    """Claim the oldest notification of a target that may be tried now; None if there is none."""
    return await session.fetch_one(_CLAIM, target=target, worker=worker_id)


async def end_attempt(
    session: CatalogSession,
    message: Message,
    *,
    worker_id: UUID,
    is_delivered: bool,
    result: str,
    now: datetime,
    pause_seconds: float,
) -> None:
    """Store the result of an attempt, if *worker_id* still holds the notification.

    One that was not delivered is tried again after *pause_seconds*, or it has failed: at
    `ATTEMPTS_MAX`, or at the age of `AGE_MAX`.
    """
    is_over = message.attempts + 1 >= ATTEMPTS_MAX or now - message.created_at >= AGE_MAX
    state = State.DELIVERED if is_delivered else State.FAILED if is_over else State.QUEUED
    await session.execute(
        _END,
        message=message.id,
        worker=worker_id,
        state=state.value,
        attempted_at=now,
        result=result,
        pause_ms=round(pause_seconds * 1000),
    )


async def prune(session: CatalogSession, *, now: datetime) -> None:
    """Bound the notifications of each target: those that wait, in number and age, and the ended."""
    await session.execute(_EXPIRE, before=now - AGE_MAX)
    await session.execute(_DROP, kept=QUEUED_MAX)
    await session.execute(_PRUNE, kept=ENDED_MAX)


async def counts(session: CatalogSession, targets: Iterable[str]) -> dict[str, Counts]:
    """Return the counts of each of the targets, by its name."""
    found = {one.target: one for one in await session.fetch_all(_COUNT)}
    return {name: found.get(name, Counts(name)) for name in targets}


async def last_attempt(session: CatalogSession, target: str) -> Attempt | None:
    """Return the last attempt to deliver something to a target, if one is kept."""
    return await session.fetch_one(_LAST, target=target)
