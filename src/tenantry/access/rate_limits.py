"""How many requests one credential may make in a minute, in this process.

Each process counts for itself, in memory: a credential that reaches three processes has three
times the limit. It is a bound on what one client costs, not a price list.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID

import msgspec

from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Unavailable

WINDOW_SECONDS = 60
# About 150 bytes each. What is forgotten for others has its whole quota again.
CREDENTIALS_MAX = 50_000
POLICY_NAME = "credential"


class TooManyRequests(Unavailable):
    """This credential has made too many requests; try again later."""


class Quota(msgspec.Struct, frozen=True):
    """What is left of a credential's limit.

    Attributes:
        per_window: Requests in `WINDOW_SECONDS`.
        remaining: Requests that may be made at this moment.
        reset_seconds: After how long all of them may be made again.
    """

    per_window: int
    remaining: int
    reset_seconds: int


class RateLimits:
    """Counts the requests of each credential.

    The limit is a bucket that leaks (GCRA): a whole window's requests may come at once, and
    then come back one by one. A credential is one number: when its bucket will be empty.

    Args:
        per_minute: The limit of a credential whose tenant has none of its own.
        clock: Monotonic seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._per_minute = per_minute
        self._clock = clock
        # A UUID by its number: its own hash is computed in Python.
        self._empty_at: OrderedDict[int | str, float] = OrderedDict()

    def take(self, credential: UUID | str, per_minute: int = 0) -> Quota:
        """Count one request, if *credential* may make it.

        Args:
            credential: The id of a key, of an McpToken, or of a
                person; or an admin's e-mail address.
            per_minute: Its tenant's own limit; 0 for none.

        Returns:
            What is left; -1 if the request was not counted, because nothing was.
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
    """Check that a request was counted.

    Raises:
        TooManyRequests: It was not: there was nothing left.
    """
    if quota.remaining < 0:
        raise TooManyRequests(retry_after_seconds=max(1, quota.reset_seconds))
