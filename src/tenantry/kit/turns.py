"""Turns: a number of places, and the tasks that wait for one."""

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import Hashable


class NoTurn(TimeoutError):
    """The task did not get a place: it has waited too long, or too many tasks wait."""


class Turns:
    """A number of places. At the limit, tasks wait: round-robin over their keys.

    Tasks with the same key get their places in the order of arrival.

    Args:
        count: How many places.
        waiting_max: How many tasks of a key wait; the callers can have a bound of their own.

    Attributes:
        free: How many places are free. While tasks wait, a place that is given back is not free,
            because it belongs to one of them.
        waiting: The tasks that wait for a place, by their keys. Requests read it each time, so it
            is no function; only this class changes it.
    """

    def __init__(self, count: int, *, waiting_max: int = sys.maxsize) -> None:
        self.free = count
        self._waiting_max = waiting_max
        # The futures have the result whether the task got a place.
        self.waiting: OrderedDict[Hashable, deque[asyncio.Future[bool]]] = OrderedDict()

    async def take(self, key: Hashable = None, *, seconds: float | None = None) -> None:
        """Take a place; wait for it up to *seconds*, or without a limit.

        Raises:
            NoTurn: There was none in time, or too many tasks of this key wait.
        """
        if self.free:
            self.free -= 1
        else:
            await self.wait(key, seconds=seconds)

    async def wait(self, key: Hashable = None, *, seconds: float | None = None) -> None:
        """Wait until a place is given back, and take it; see `take`.

        Raises:
            NoTurn: As `take` does.
        """
        turns = self.waiting.setdefault(key, deque())
        if len(turns) >= self._waiting_max:
            raise NoTurn
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        turns.append(turn)
        timer = None if seconds is None else loop.call_later(seconds, self._refuse, key, turn)
        try:
            has_place = await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(key, turn)
            elif turn.result():
                self.give_back()  # its turn came when this task was already cancelled
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if not has_place:
            raise NoTurn

    def give_back(self) -> None:
        """Give a place to the task whose turn it is; free it if none waits."""
        while self.waiting:
            key, turns = self.waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self.waiting[key] = turns
            if not turn.done():
                turn.set_result(True)
                return
        self.free += 1

    def displace(self, *, more_than: int) -> bool:
        """Refuse the newest waiting task of the key that has most, if it has *more_than* these."""
        key, turns = max(self.waiting.items(), key=lambda one: len(one[1]), default=(None, deque()))
        if len(turns) <= more_than:
            return False
        self._refuse(key, turns[-1])
        return True

    def _refuse(self, key: Hashable, turn: "asyncio.Future[bool]") -> None:
        if not turn.done():
            turn.set_result(False)
            self._remove(key, turn)

    def _remove(self, key: Hashable, turn: "asyncio.Future[bool]") -> None:
        turns = self.waiting.get(key, deque())
        if turn in turns:  # `give_back` skips and removes the cancelled ones
            turns.remove(turn)
            if not turns:
                del self.waiting[key]
