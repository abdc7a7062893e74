"""A fair share for every tenant: so many requests of one tenant are in work at once.

A request beyond that waits, in the order of arrival, before it uses the tenant's database, and
costs nothing while it waits. So a tenant that sends as fast as it can delays the others by
`IN_WORK_MAX` requests, and not by as many as it has connections.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from tenantry.access.rate_limits import TooManyRequests
from tenantry.kit.clock import monotonic_seconds

# As many as a tenant has connections to a PostgreSQL database; a SQLite file has one.
IN_WORK_MAX = 4
WAITING_MAX = 1_000
WAIT_SECONDS_MAX = 5.0

Answer = TypeVar("Answer")


class TooManyAtOnce(TooManyRequests):
    """This tenant has too many requests in work; try again later."""


class FairShare:
    """Limits how many requests of each tenant are in work at once."""

    def __init__(self) -> None:
        # By the number of the tenant's id: a UUID computes its hash in Python.
        self._lanes: dict[int, _Lane] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no request is in work."""
        return not self._lanes

    async def run(self, tenant_id: UUID, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return what *work* returns, when it is the turn of this request.

        Raises:
            TooManyAtOnce: Too many are waiting, or it waited for too long.
            Exception: Whatever *work* raises.
        """
        key = tenant_id.int
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        if lane.in_work < IN_WORK_MAX:
            lane.in_work += 1
        else:
            await lane.wait()
        try:
            return await work()
        finally:
            lane.pass_on()
            if not lane.in_work:
                self._lanes.pop(key, None)


class _Lane:
    """The requests of one tenant."""

    def __init__(self) -> None:
        self.in_work = 0
        # With the time at which each has waited for too long; the first one is due first.
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise TooManyAtOnce
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (monotonic_seconds() + WAIT_SECONDS_MAX, turn)
        self._waiting.append(place)
        if self._timer is None:
            self._set_timer(WAIT_SECONDS_MAX)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # `pass_on` has skipped it
                    self._waiting.remove(place)
            elif turn.exception() is None:
                self.pass_on()  # its turn came just as this request stopped waiting
            raise

    def pass_on(self) -> None:
        """Give the place to the request that has waited longest, or free it."""
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_work -= 1

    def _set_timer(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse)

    def _refuse(self) -> None:
        """Refuse the requests that have waited for too long."""
        self._timer = None
        now = monotonic_seconds()
        while self._waiting and self._waiting[0][0] <= now:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(TooManyAtOnce())
        if self._waiting:
            self._set_timer(self._waiting[0][0] - now)
