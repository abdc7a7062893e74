"""Limit the requests of one tenant that are processed concurrently.

Further requests wait in the order of arrival, before they use the tenant's database. So a tenant
that sends as many requests as it can delays the others by at most `IN_WORK_MAX` requests.
"""

import asyncio
import contextlib
from collections import deque

from tenantry.access.rate_limits import TooManyRequests
from tenantry.kit.clock import monotonic_seconds

# The number of connections to a tenant's PostgreSQL database; a SQLite file has one.
IN_WORK_MAX = 4
WAITING_MAX = 1_000
WAIT_SECONDS_MAX = 5.0
# After a longer wait, the caller is authenticated again before the work begins.
LONG_WAIT_SECONDS = 0.5


class TooManyAtOnce(TooManyRequests):
    """Too many requests of this tenant are being processed; try again later."""


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
        self._lanes: dict[int, _Lane] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no request is being processed."""
        return not self._lanes

    async def enter(self, key: int) -> float:
        """Wait for a place among the requests of the tenant *key*; return for how many seconds.

        `leave` gives the place to the next one.

        Raises:
            TooManyAtOnce: Too many requests are waiting, or this one waited too long.
        """
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._wait_seconds_max)
        if lane.in_work < self._in_work_max:
            lane.in_work += 1
            return 0.0
        return await lane.wait()

    def leave(self, key: int) -> None:
        """Give the place to the request that has waited longest."""
        lane = self._lanes[key]
        lane.pass_on()
        if not lane.in_work:
            del self._lanes[key]


class _Lane:
    """The requests of one tenant."""

    def __init__(self, wait_seconds_max: float) -> None:
        self._wait_seconds_max = wait_seconds_max
        self.in_work = 0
        # Each with the time at which it has waited too long, in ascending order.
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> float:
        """Wait for a place; return how long it took, in seconds."""
        if len(self._waiting) >= WAITING_MAX:
            raise TooManyAtOnce
        began = monotonic_seconds()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (began + self._wait_seconds_max, turn)
        self._waiting.append(place)
        if self._timer is None:
            self._set_timer(self._wait_seconds_max)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # `pass_on` has skipped it
                    self._waiting.remove(place)
            elif turn.exception() is None:
                self.pass_on()  # its turn came when this request was already cancelled
            raise
        return monotonic_seconds() - began

    def pass_on(self) -> None:
        """Give the place to the request that has waited longest; free it if none waits."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_work -= 1

    def _set_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse)

    def _refuse(self) -> None:
        """Reject the requests that have waited too long."""
        self._timer = None
        now = monotonic_seconds()
        while self._waiting and self._waiting[0][0] <= now:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(TooManyAtOnce())
        if self._waiting:
            self._set_timer(self._waiting[0][0] - now)
