"""Attempts to guess a password, counted in rows so that restarts and processes do not matter.

A guess has three counters: a *window* of the client's address, a window of the account, and a
*backoff* of the two together. A window allows so many attempts from its first one until it is
over. A backoff allows a few, and after them one each time a growing wait is over.

All three are counted by one statement or not at all, and set right by one when the password
was right: what a login costs beside its hash is mostly the waking up between statements.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import Catalog
from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import login_attempt
from tenantry.db.statements import Statement, insert
from tenantry.db.types import database_clock_ms

ADDRESS_WINDOW_MS = 60_000
ACCOUNT_WINDOW_MS = 3_600_000
BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 900_000
# Of any first wait it is more than the longest; two to the power of a large count is too large.
DOUBLINGS_MAX = 20
# A backoff that was quiet for so long begins again.
BACKOFF_FORGOTTEN_MS = 3_600_000


class Guess(msgspec.Struct, frozen=True):
    """The keys of the counters of one guess.

    Attributes:
        address: Of the client's window.
        account: Of the account's window.
        pair: Of the backoff.
    """

    address: str
    account: str
    pair: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How often somebody may guess.

    Attributes:
        tries: Failures of one account from one address, before it must wait: for
            `BACKOFF_FIRST_MS`, and twice as long with every further one, up to
            `BACKOFF_MAX_MS`.
        account_hourly: Failures of one account, over all addresses.
        address_minutely: Failures from one address.
    """

    tries: int
    account_hourly: int
    address_minutely: int


class _Key(msgspec.Struct, frozen=True):
    key: str


class _Wait(msgspec.Struct, frozen=True):
    wait_ms: int | None


_attempt = login_attempt.c
_now = database_clock_ms()
_address, _account, _pair = _keys = [
    sa.bindparam(name, type_=sa.String) for name in Guess.__struct_fields__
]
_tries, _account_hourly, _address_minutely = (
    sa.bindparam(name, type_=sa.Integer) for name in Limits.__struct_fields__
)
_first_ms = sa.bindparam("first_ms", type_=sa.BigInteger)


def _of_each(address: object, account: object, pair: object) -> sa.ColumnElement[int]:
    """Return the one of these that is for a row."""
    return sa.case((_attempt.key == _address, address), (_is_pair, pair), else_=account)


def _wait_after(failures: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    doublings = failures - _tries
    wait = _first_ms.bitwise_lshift(doublings)
    return sa.case(
        (doublings < 0, 0),
        (sa.or_(doublings > DOUBLINGS_MAX, wait > BACKOFF_MAX_MS), BACKOFF_MAX_MS),
        else_=wait,
    )


def _rows(failures: int, lengths: Iterable[Any]) -> sa.Subquery:
    """Return a new row of each counter, that is over after so long.

    They come in this order always, so that no two statements wait for each other.
    """
    rows = (
        sa.select(
            key.label("key"),
            sa.literal(failures).label("failures"),
            _now.label("since_ms"),
            (_now + length).label("next_ms"),
        )
        for key, length in zip(_keys, lengths, strict=True)
    )
    return sa.union_all(*rows).subquery()


_is_pair = _attempt.key == _pair
_limit = _of_each(_address_minutely, _account_hourly, 0)
_is_allowed = sa.or_(_attempt.next_ms <= _now, _attempt.failures < _limit)
_refused = sa.and_(_attempt.key.in_(_keys), sa.not_(_is_allowed))

_span = _of_each(ADDRESS_WINDOW_MS, ACCOUNT_WINDOW_MS, BACKOFF_FORGOTTEN_MS)
_begins = _attempt.since_ms <= _now - _span
_failures = sa.case((_begins, 1), else_=_attempt.failures + 1)
# A window's first attempt, or a backoff's last one.
_since = sa.case((sa.or_(_is_pair, _begins), _now), else_=_attempt.since_ms)

# Whoever is refused writes nothing, so that it costs no commit; the condition below is for those
# who come at the same moment.
_TAKE = Statement(
    insert(login_attempt)
    .from_select(
        login_attempt.columns.keys(),
        sa.select(
            _rows(1, [ADDRESS_WINDOW_MS, ACCOUNT_WINDOW_MS, _wait_after(sa.literal(1))])
        ).where(~sa.exists().where(_refused)),
    )
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={
            "failures": _failures,
            "since_ms": _since,
            "next_ms": _since + sa.case((_is_pair, _wait_after(_failures)), else_=_span),
        },
        where=_is_allowed,
    )
    .returning(_attempt.key),
    _Key,
)
_WAIT = Statement(
    sa.select(sa.func.max(_attempt.next_ms - _now).label("wait_ms")).where(_refused), _Wait
)
_SUCCEED = Statement[Any](
    insert(login_attempt)
    .from_select(login_attempt.columns.keys(), sa.select(_rows(0, [0, 0, 0])).where(sa.true()))
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={
            "failures": sa.case(
                (sa.or_(_is_pair, _attempt.failures < 1), 0), else_=_attempt.failures - 1
            ),
            "next_ms": sa.case((_is_pair, _now), else_=_attempt.next_ms),
        },
    )
)
_GIVE_BACK = Statement[Any](
    sa.update(login_attempt)
    .values(failures=_attempt.failures - 1)
    .where(_attempt.key == sa.bindparam("counter"), _attempt.failures > 0)
)
_FORGET = Statement[Any](
    sa.delete(login_attempt).where(_attempt.next_ms < _now - BACKOFF_FORGOTTEN_MS)
)


async def take(catalog: Catalog, guess: Guess, limits: Limits) -> int | None:
    """Count a guess; or return how long until one is allowed, in milliseconds."""
    asked = _asked(guess, limits)
    taken = await catalog.fetch_all(_TAKE, **asked)
    if len(taken) == len(_keys):
        return None
    # Somebody who came at the same moment was let in instead; else none was counted.
    for counted in taken:
        await catalog.execute(_GIVE_BACK, counter=counted.key)
    found = await catalog.fetch_one(_WAIT, **asked)
    return max(found.wait_ms or 0, 0) if found else 0


async def succeed(catalog: Catalog, guess: Guess) -> None:
    """Take a guess back that was right, and begin its backoff anew."""
    await catalog.execute(_SUCCEED, **msgspec.structs.asdict(guess))


async def give_back(catalog: Catalog, guess: Guess) -> None:
    """Take a guess back that was neither right nor wrong."""
    for key in msgspec.structs.astuple(guess):
        await catalog.execute(_GIVE_BACK, counter=key)


async def forget(session: CatalogSession) -> None:
    """Remove the counters that are of no use any more."""
    await session.execute(_FORGET)


def _asked(guess: Guess, limits: Limits) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(guess),
        **msgspec.structs.asdict(limits),
        "first_ms": BACKOFF_FIRST_MS,
    }
