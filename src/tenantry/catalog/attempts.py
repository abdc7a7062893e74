"""Attempts to guess a password, counted in rows so that restarts and processes do not matter.

There are two kinds of counter. A *window* allows so many attempts from its first one until it
is over. A *backoff* allows a few, and after them one each time a growing wait is over.
Both are one upsert each: whoever is not allowed changes nothing and gets no row back.
"""

from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import login_attempt
from tenantry.db.statements import Statement, insert
from tenantry.db.types import database_clock_ms

BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 900_000
# A backoff that was quiet for so long begins again.
BACKOFF_FORGOTTEN_MS = 3_600_000


class Failures(msgspec.Struct, frozen=True):
    """How often, with the attempt that was just counted."""

    failures: int


class Wait(msgspec.Struct, frozen=True):
    """How long until another attempt is allowed."""

    wait_ms: int


_attempt = login_attempt.c
_now = database_clock_ms()
_limit = sa.bindparam("limit", type_=sa.Integer)
_length = sa.bindparam("length_ms", type_=sa.BigInteger)
_key = sa.bindparam("key", type_=sa.String)

_is_over = _attempt.next_ms <= _now
_TAKE_WINDOW = Statement(
    insert(login_attempt)
    .values(key=_key, failures=1, since_ms=_now, next_ms=_now + _length)
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={
            "failures": sa.case((_is_over, 1), else_=_attempt.failures + 1),
            "since_ms": sa.case((_is_over, _now), else_=_attempt.since_ms),
            "next_ms": sa.case((_is_over, _now + _length), else_=_attempt.next_ms),
        },
        where=sa.or_(_is_over, _attempt.failures < _limit),
    )
    .returning(_attempt.failures),
    Failures,
)

_is_forgotten = _attempt.since_ms <= _now - BACKOFF_FORGOTTEN_MS
_TAKE_BACKOFF = Statement(
    insert(login_attempt)
    .values(
        key=_key,
        failures=1,
        since_ms=_now,
        next_ms=sa.bindparam("first_next_ms", type_=sa.BigInteger) + _now,
    )
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={
            "failures": sa.case((_is_forgotten, 1), else_=_attempt.failures + 1),
            "since_ms": _now,
        },
        where=sa.or_(_is_forgotten, _attempt.next_ms <= _now),
    )
    .returning(_attempt.failures),
    Failures,
)
_SET_WAIT = Statement[Any](
    sa.update(login_attempt)
    .values(next_ms=_now + sa.bindparam("wait_ms", type_=sa.BigInteger))
    .where(_attempt.key == _key)
)
_WAIT = Statement(
    sa.select((_attempt.next_ms - _now).label("wait_ms")).where(_attempt.key == _key), Wait
)
_CLEAR = Statement[Any](sa.delete(login_attempt).where(_attempt.key == _key))
_GIVE_BACK = Statement[Any](
    sa.update(login_attempt)
    .values(failures=_attempt.failures - 1)
    .where(_attempt.key == _key, _attempt.failures > 0)
)
_FORGET = Statement[Any](
    sa.delete(login_attempt).where(_attempt.next_ms < _now - BACKOFF_FORGOTTEN_MS)
)


async def take_window(session: CatalogSession, key: str, *, limit: int, length_ms: int) -> bool:
    """Count an attempt in a window of *length_ms*; return whether it is allowed."""
    taken = await session.fetch_one(_TAKE_WINDOW, key=key, limit=limit, length_ms=length_ms)
    return taken is not None


async def take_backoff(session: CatalogSession, key: str, *, tries: int) -> bool:
    """Count an attempt in a backoff; return whether it is allowed.

    Args:
        session: A transaction on the catalog.
        key: Of the counter.
        tries: Attempts before the first wait. It is `BACKOFF_FIRST_MS`, and doubles with
            every further attempt up to `BACKOFF_MAX_MS`.
    """
    first = BACKOFF_FIRST_MS if tries <= 1 else 0
    taken = await session.fetch_one(_TAKE_BACKOFF, key=key, first_next_ms=first)
    if taken is None:
        return False
    doublings = taken.failures - tries
    if doublings >= 0:
        # The exponent is bounded too: two to the power of a large count is a large number.
        wait_ms = min(BACKOFF_FIRST_MS * 2 ** min(doublings, 20), BACKOFF_MAX_MS)
        await session.execute(_SET_WAIT, key=key, wait_ms=wait_ms)
    return True


async def wait_ms(session: CatalogSession, key: str) -> int:
    """Return how long until a counter allows another attempt."""
    found = await session.fetch_one(_WAIT, key=key)
    return max(found.wait_ms, 0) if found else 0


async def clear(session: CatalogSession, key: str) -> None:
    """Begin a counter anew: the password was right."""
    await session.execute(_CLEAR, key=key)


async def give_back(session: CatalogSession, key: str) -> None:
    """Take back the one attempt that turned out to be no failure."""
    await session.execute(_GIVE_BACK, key=key)


async def forget(session: CatalogSession) -> None:
    """Remove the counters that are of no use any more."""
    await session.execute(_FORGET)
