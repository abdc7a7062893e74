"""Limit the requests of each caller in a minute, and the concurrent requests of each tenant.

A tenant can have a limit for a minute of its own. Each process counts in its own memory: a client
whose requests reach three processes has three times the limit. The limits protect the service from
one client; they are no exact quota.

Further concurrent requests wait in the order of arrival, before they use the tenant's database. So
a tenant that sends as many requests as it can delays the others by at most `IN_WORK_MAX` requests.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID

import msgspec

from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Unavailable
from tenantry.kit.turns import NoTurn, Turns

WINDOW_SECONDS = 60
# About 150 bytes each. The one that was unused longest is dropped, and its quota restarts.
COUNTED_MAX = 50_000
# The number of connections to a tenant's PostgreSQL database; a SQLite file has one.
IN_WORK_MAX = 4
WAITING_MAX = 1_000
WAIT_SECONDS_MAX = 5.0
# The places of so many tenants are kept; then those of tenants without a request are dropped.
TENANTS_MAX = 4_096
# After a longer wait, the caller is authenticated again before the work begins.
LONG_WAIT_SECONDS = 0.5

POLICY_OF_CALLER = "credential"
POLICY_OF_TENANT = "tenant"


class TooManyRequests(Unavailable):
    """This credential, or this tenant, has made too many requests; try again later."""


class TooManyAtOnce(TooManyRequests):
    """Too many requests of this tenant are being processed; try again later."""


class Quota(msgspec.Struct, frozen=True):
    """The state of a limit.

    Attributes:
        per_window: Requests in `WINDOW_SECONDS`.
        remaining: Requests that may be made now; -1 if this request is over the limit.
        reset_seconds: Seconds until the full number is available again, or, over the limit,
            until the next request may be made.
        policy: `POLICY_OF_CALLER` or `POLICY_OF_TENANT`.
    """

    per_window: int
    remaining: int
    reset_seconds: int
    policy: str = POLICY_OF_CALLER


class RateLimits:
    """Counts requests.

    The algorithm is a leaky bucket (GCRA): a whole window's requests may come at once, and are
    then replenished one by one. It stores one number for each bucket: the time at which it is
    empty.

    Args:
        per_minute: The limit of a caller.
        clock: Monotonic seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # UUIDs are stored as integers, because UUID.__hash__ is slow Python code.
        self._empty_at: OrderedDict[object, float] = OrderedDict()

    def take(
        self, caller: UUID | str, *, tenant_id: UUID | None = None, per_minute: int | None = None
    ) -> Quota:
        """Count one request of *caller*, unless it is over the limit; return the quota after it.

        Args:
            caller: The id of a key, a user or an McpToken of the tenant, or an admin's e-mail
                address; with *per_minute*, the kind of the credentials that share the limit.
            tenant_id: The users of a clone have the ids of those of its original.
            per_minute: The limit of a tenant that has one of its own.
        """
        key = (tenant_id and tenant_id.int, caller.int if isinstance(caller, UUID) else caller)
        limit, policy = self._per_minute, POLICY_OF_CALLER
        if per_minute is not None:
            limit, policy = per_minute, POLICY_OF_TENANT
        now = self._clock()
        full = now + WINDOW_SECONDS
        empty_at = max(now, self._empty_at.get(key, now)) + WINDOW_SECONDS / limit
        if empty_at > full:
            return Quota(limit, -1, math.ceil(empty_at - full), policy)
        self._empty_at[key] = empty_at
        self._empty_at.move_to_end(key)
        if len(self._empty_at) > COUNTED_MAX:
            self._empty_at.popitem(last=False)
        remaining = int((full - empty_at) * limit / WINDOW_SECONDS)
        return Quota(limit, remaining, math.ceil(empty_at - now), policy)


def check(quota: Quota) -> None:
    """Check that a request was within the limit.

    Raises:
        TooManyRequests: It was not.
    """
    if quota.remaining < 0:
        raise TooManyRequests(retry_after_seconds=max(1, quota.reset_seconds))


class FairShare:
    """Limits how many requests of each tenant are processed concurrently.

    Args:
        in_work_max: How many of one tenant.
        wait_seconds_max: How long another one waits for its turn.
    """

    def __init__(
        self, *, in_work_max: int = IN_WORK_MAX, wait_seconds_max: float = WAIT_SECONDS_MAX
    ) -> None:
        self._in_work_max = in_work_max
        self._wait_seconds_max = wait_seconds_max
        self._turns: dict[int, Turns] = {}

    async def enter(self, key: int) -> float:
        """Wait for a place among the requests of the tenant *key*; return for how many seconds.

        `leave` gives the place to the next one.

        Raises:
            TooManyAtOnce: Too many requests are waiting, or this one waited too long.
        """
        turns = self._turns.get(key)
        if turns is None:
            if len(self._turns) >= TENANTS_MAX:
                kept, most = self._turns.items(), self._in_work_max
                self._turns = {one: places for one, places in kept if places.free < most}
            turns = self._turns[key] = Turns(self._in_work_max, waiting_max=WAITING_MAX)
        if turns.free:
            turns.free -= 1
            return 0.0
        began = monotonic_seconds()
        try:
            await turns.wait(seconds=self._wait_seconds_max)
        except NoTurn as error:
            raise TooManyAtOnce from error
        return monotonic_seconds() - began

    def leave(self, key: int) -> None:
        """Give the place to the request that has waited longest."""
        turns = self._turns[key]
        if turns.waiting:
            turns.give_back()
        else:
            turns.free += 1
