"""A fair share for every tenant: so many requests of one tenant are in work at once.

Whoever asks for more waits, in the order of asking, and costs nothing while waiting. So a
tenant that sends as fast as it can holds up the others by as much as `IN_WORK_MAX` requests,
and not by as many connections as it has.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from tenantry.access.rate_limits import TooManyRequests

# As many as a tenant has connections to a PostgreSQL database; a SQLite file has one.
IN_WORK_MAX = 4
WAITING_MAX = 1_000
WAIT_SECONDS_MAX = 5.0

Answer = TypeVar("Answer")


class TooManyAtOnce(TooManyRequests):
    """This tenant has too many requests in work; try again later."""


class FairShare:
    """Lets in so many requests of each tenant at once."""

    def __init__(self) -> None:
        self._lanes: dict[UUID, _Lane] = {}

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
        lane = self._lanes.get(tenant_id)
        if lane is None:
            lane = self._lanes[tenant_id] = _Lane()
        if lane.in_work < IN_WORK_MAX:
            lane.in_work += 1
        else:
            await lane.wait()
        try:
            return await work()
        finally:
            lane.pass_on()
            if not lane.in_work:
                self._lanes.pop(tenant_id, None)


class _Lane:
    """The requests of one tenant."""

    def __init__(self) -> None:
        self.in_work = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise TooManyAtOnce
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.pass_on()  # it came just as this request stopped waiting
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise TooManyAtOnce from error
            raise

    def pass_on(self) -> None:
        """Give the place to whoever waits longest, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_work -= 1
