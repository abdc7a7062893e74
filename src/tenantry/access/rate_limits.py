"""Limit the requests of each credential in a minute.

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
# About 150 bytes each. The credential that was unused longest is dropped, and its quota restarts.
CREDENTIALS_MAX = 50_000
POLICY_NAME = "credential"


class TooManyRequests(Unavailable):
    """This credential has made too many requests; try again later."""


class Quota(msgspec.Struct, frozen=True):
    """The state of a credential's limit.

    Attributes:
        per_window: Requests in `WINDOW_SECONDS`.
        remaining: Requests that may be made now; -1 if this request is over the limit.
        reset_seconds: Seconds until the full number is available again, or, over the limit,
            until the next request may be made.
    """

    per_window: int
    remaining: int
    reset_seconds: int


class RateLimits:
    """Counts the requests of each credential.

    The algorithm is a leaky bucket (GCRA): a whole window's requests may come at once, and are
    then replenished one by one. It stores one number for each credential: the time at which its
    bucket is empty.

    Args:
        per_minute: The limit, for tenants without a limit of their own.
        clock: Monotonic seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # UUIDs are stored as integers, because UUID.__hash__ is slow Python code.
        self._empty_at: OrderedDict[int | str, float] = OrderedDict()

    def take(self, credential: UUID | str, per_minute: int = 0) -> Quota:
        """Count one request of *credential*, unless it is over the limit.

        Args:
            credential: The id of a key, an McpToken or a user, or an admin's e-mail address.
            per_minute: The tenant's own limit; 0 if it has none.

        Returns:
            The quota after this request.
        """
        key = credential.int if isinstance(credential, UUID) else credential
        limit = per_minute or self._per_minute
        now = self._clock()
        full = now + WINDOW_SECONDS
        empty_at = max(now, self._empty_at.get(key, now)) + WINDOW_SECONDS / limit
        if empty_at > full:
            return Quota(limit, -1, math.ceil(empty_at - full))
        self._empty_at[key] = empty_at
        self._empty_at.move_to_end(key)
        if len(self._empty_at) > CREDENTIALS_MAX:
            self._empty_at.popitem(last=False)
        remaining = int((full - empty_at) * limit / WINDOW_SECONDS)
        return Quota(limit, remaining, math.ceil(empty_at - now))


def check(quota: Quota) -> None:
    """Check that a request was within the limit.

    Raises:
        TooManyRequests: It was not.
    """
    if quota.remaining < 0:
        raise TooManyRequests(retry_after_seconds=max(1, quota.reset_seconds))
