"""Limit the requests of each caller in a minute, and of each tenant with a limit of its own.

Each process counts in its own memory: a client whose requests reach three processes has three
times the limit. The limit protects the service from one client; it is no exact quota.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID

import msgspec

from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Unavailable

WINDOW_SECONDS = 60
# About 150 bytes each. The one that was unused longest is dropped, and its quota restarts.
COUNTED_MAX = 50_000
POLICY_OF_CALLER = "credential"
POLICY_OF_TENANT = "tenant"


class TooManyRequests(Unavailable):
    """This credential, or this tenant, has made too many requests; try again later."""


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
        """Count one request of *caller*, unless it is over the limit; return the quota then.

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
