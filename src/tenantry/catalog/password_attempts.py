"""Counters of password attempts, in the catalog, so that they hold for all processes.

An attempt has three counters, and is allowed if all three allow it:

* a *window* for the client's address: a number of attempts a minute;
* a *spacing* for the account, over all addresses: a few attempts, and then one after each fixed
  interval, so that an attacker delays the owner's login but never locks the account;
* a *backoff* for the pair of both: a few attempts, and then one after each growing interval.

A device (an account at an address from which it has logged in) has its own counter, so that
attacks from other addresses do not delay it.

One statement counts all three or none, and one statement corrects them after the right password,
because the round trips of statements are the main cost of a login besides the hash. All times are
those of the database's clock. A row with a later time was written before the clock was set back,
and is ignored.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.catalog.database import Catalog
from tenantry.catalog.session import CatalogSession, Value, fetch_value
from tenantry.catalog.tables import login_attempt
from tenantry.db.statements import Statement, insert
from tenantry.db.types import database_clock_ms
from tenantry.settings import Settings

ADDRESS_WINDOW_MS = 60_000
ACCOUNT_WINDOW_MS = 3_600_000
# The share of an account's hourly attempts that are allowed without an interval.
ACCOUNT_BURST_SHARE = 5
BACKOFF_FIRST_MS = 1_000
BACKOFF_MAX_MS = 900_000
# More doublings than any interval needs; two to the power of a large count would overflow.
DOUBLINGS_MAX = 20
# A backoff without attempts for this long is reset.
BACKOFF_FORGOTTEN_MS = 3_600_000
DEVICE_KNOWN_MS = 90 * 86_400_000
# More than the database's clock advances while a statement waits for a row.
SET_BACK_MS = 10_000


class Guess(msgspec.Struct, frozen=True):
    """The keys of the counters of one attempt.

    Attributes:
        address: The key of the window.
        account: The key of the spacing: of the account, or of a device.
        pair: The key of the backoff.
    """

    address: str
    account: str
    pair: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on password attempts.

    Attributes:
        tries: Failures of one account from one address before the first delay. It doubles with
            every further failure, up to `BACKOFF_MAX_MS`.
        account_hourly: Failures of one account in an hour, over all addresses: a fifth of them
            at any time, the others at equal intervals.
        address_minutely: Failures from one address in a minute.
        first_ms: The first delay.
    """

    tries: int
    account_hourly: int
    address_minutely: int
    first_ms: int = BACKOFF_FIRST_MS

    @property
    def account_burst(self) -> int:
        """How many failures of an account are allowed without an interval."""
        return max(self.account_hourly // ACCOUNT_BURST_SHARE, 1)

    @property
    def account_wait_ms(self) -> int:
        """The interval between the other failures."""
        return ACCOUNT_WINDOW_MS // max(self.account_hourly - self.account_burst, 1)


def limits_of(settings: Settings) -> Limits:
    """Return the limits in *settings*."""
    return Limits(
        tries=settings.login_tries,
        account_hourly=settings.login_account_hourly,
        address_minutely=settings.login_address_minutely,
    )


_attempt = login_attempt.c
_now = database_clock_ms()
_address, _account, _pair = _keys = [
    sa.bindparam(name, type_=sa.String) for name in Guess.__struct_fields__
]
_owner = sa.bindparam("owner", type_=sa.String)
_owners = [sa.literal(""), _owner, _owner]
_tries, _account_burst, _address_minutely = (
    sa.bindparam(name, type_=sa.Integer) for name in ("tries", "account_burst", "address_minutely")
)
_account_wait_ms, _first_ms = (
    sa.bindparam(name, type_=sa.BigInteger) for name in ("account_wait_ms", "first_ms")
)


def _of_each(address: object, account: object, pair: object) -> sa.ColumnElement[int]:
    """Return the expression for the kind of the row."""
    return sa.case((_is_address, address), (_is_pair, pair), else_=account)


def _wait_after(failures: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    doublings = failures - _tries
    wait = _first_ms.bitwise_lshift(doublings)
    return sa.case(
        (doublings < 0, 0),
        (sa.or_(doublings > DOUBLINGS_MAX, wait > BACKOFF_MAX_MS), BACKOFF_MAX_MS),
        else_=wait,
    )


def _spacing_after(failures: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.case((failures < _account_burst, 0), else_=_account_wait_ms)


def _rows(failures: int, lengths: Iterable[Any]) -> sa.Subquery:
    """Return a new row for each counter, with the time after which it has no effect.

    The order is always the same, to avoid deadlocks.
    """
    rows = (
        sa.select(
            key.label("key"),
            owner.label("account"),
            sa.literal(failures).label("failures"),
            _now.label("since_ms"),
            (_now + length).label("next_ms"),
        )
        for key, owner, length in zip(_keys, _owners, lengths, strict=True)
    )
    return sa.union_all(*rows).subquery()


_is_address = _attempt.key == _address
_is_pair = _attempt.key == _pair
_is_of_the_future = _attempt.since_ms > _now + SET_BACK_MS
_is_allowed = sa.or_(
    _attempt.next_ms <= _now,
    sa.and_(_is_address, _attempt.failures < _address_minutely),
    _is_of_the_future,
)
_refused = sa.and_(_attempt.key.in_(_keys), sa.not_(_is_allowed))

_span = _of_each(ADDRESS_WINDOW_MS, ACCOUNT_WINDOW_MS, BACKOFF_FORGOTTEN_MS)
_begins = sa.or_(_attempt.since_ms <= _now - _span, sa.and_(sa.not_(_is_pair), _is_of_the_future))
_failures = sa.case((_begins, 1), else_=_attempt.failures + 1)
# A window's first attempt, or a backoff's last one.
_since = sa.case((sa.or_(_is_pair, _begins), _now), else_=_attempt.since_ms)
_next = _of_each(
    _since + ADDRESS_WINDOW_MS, _now + _spacing_after(_failures), _now + _wait_after(_failures)
)
_FIRST = [
    ADDRESS_WINDOW_MS,
    _spacing_after(sa.literal(1)),
    _wait_after(sa.literal(1)),
]

# A rejected attempt writes nothing, so that it costs no commit; the condition below is for
# concurrent attempts.
_TAKE = Statement(
    insert(login_attempt)
    .from_select(
        login_attempt.columns.keys(),
        sa.select(_rows(1, _FIRST)).where(~sa.exists().where(_refused)),
    )
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={"failures": _failures, "since_ms": _since, "next_ms": _next},
        where=_is_allowed,
    )
    .returning(_attempt.key.label("value")),
    Value,
)
_WAIT = Statement(
    sa.select(sa.func.max(_attempt.next_ms - _now).label("value")).where(_refused), Value
)


def _undo(pair_failures: object) -> Statement[Any]:
    rows = _rows(0, [0, 0, 0])
    # A counter that was not taken has an empty key. Two equal keys in one statement are an error.
    return Statement(
        insert(login_attempt)
        .from_select(login_attempt.columns.keys(), sa.select(rows).where(rows.c.key != ""))
        .on_conflict_do_update(
            index_elements=[_attempt.key],
            set_={
                "failures": sa.case(
                    (_attempt.failures < 1, 0),
                    (_is_pair, pair_failures),
                    else_=_attempt.failures - 1,
                ),
                "next_ms": sa.case((_is_address, _attempt.next_ms), else_=_now),
            },
        )
    )


_SUCCEED = _undo(0)
_GIVE_BACK = _undo(_attempt.failures - 1)
_device = sa.bindparam("device", type_=sa.String)
_REMEMBER = Statement[Any](
    insert(login_attempt)
    .values(key=_device, account=_owner, failures=0, since_ms=_now, next_ms=_now + DEVICE_KNOWN_MS)
    .on_conflict_do_update(
        index_elements=[_attempt.key],
        set_={"since_ms": _now, "next_ms": _now + DEVICE_KNOWN_MS},
    )
)
_FIND = Statement(sa.select(_attempt.key.label("value")).where(_attempt.key == _device), Value)
_LIFT = Statement[Any](
    sa.delete(login_attempt).where(_attempt.account == _owner, _attempt.failures > 0)
)
_FORGET = Statement[Any](
    sa.delete(login_attempt).where(_attempt.next_ms < _now - BACKOFF_FORGOTTEN_MS)
)


async def take(catalog: Catalog, guess: Guess, limits: Limits, *, owner: str) -> int | None:
    """Count an attempt on the account *owner*, or return the ms until one is allowed."""
    asked = {
        **msgspec.structs.asdict(guess),
        "owner": owner,
        "tries": limits.tries,
        "account_burst": limits.account_burst,
        "account_wait_ms": limits.account_wait_ms,
        "address_minutely": limits.address_minutely,
        "first_ms": limits.first_ms,
    }
    taken = {one.value for one in await catalog.fetch_all(_TAKE, **asked)}
    if len(taken) == len(_keys):
        return None
    if taken:
        # A concurrent attempt was allowed instead.
        keys = (key if key in taken else "" for key in msgspec.structs.astuple(guess))
        await give_back(catalog, Guess(*keys), owner=owner)
    return max(await fetch_value(catalog, _WAIT, **asked) or 0, 0)


async def succeed(catalog: Catalog, guess: Guess, *, owner: str, device: str) -> None:
    """Uncount a successful attempt, reset its backoff, and store the device."""
    await catalog.execute(_SUCCEED, **msgspec.structs.asdict(guess), owner=owner)
    await remember(catalog, owner=owner, device=device)


async def give_back(catalog: Catalog, guess: Guess, *, owner: str) -> None:
    """Uncount an attempt that ended without a result."""
    await catalog.execute(_GIVE_BACK, **msgspec.structs.asdict(guess), owner=owner)


async def is_known(catalog: Catalog, device: str) -> bool:
    """Return whether an account has logged in from an address before."""
    return await catalog.fetch_one(_FIND, device=device) is not None


async def remember(catalog: Catalog, *, owner: str, device: str) -> None:
    """Store that an account has logged in from an address, which is then counted separately."""
    await catalog.execute(_REMEMBER, owner=owner, device=device)


async def lift(catalog: Catalog, *, owner: str) -> None:
    """Delete all failures of an account, from every address."""
    await catalog.execute(_LIFT, owner=owner)


async def forget(session: CatalogSession) -> None:
    """Delete expired counters."""
    await session.execute(_FORGET)
