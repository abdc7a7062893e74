"""A bounded queue for CPU-bound work in threads: round-robin over client addresses."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from tenantry.kit.errors import Unavailable

Answer = TypeVar("Answer")

# At 25 ms for one password and one thread, the last place in the queue waits 6 s.
PLACES_MAX = 256
PLACES_OF_ADDRESS_MAX = 32


class TooManyLogins(Unavailable):
    """Too many logins are in progress; try again in a moment."""


class FairQueue:
    """Runs work in a pool of *threads* threads, round-robin over the addresses that submit it."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self._pool = pool
        self._idle = threads
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def count(self) -> int:
        """How many places are held: work that runs, is queued, or will be submitted."""
        return self._held.total()

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Hold a place for the work of *address* while the block runs.

        If all places are held, an address that holds fewer takes the newest place of the address
        that has the most work waiting.

        Raises:
            TooManyLogins: No place is free.
        """
        if self._held[address] >= PLACES_OF_ADDRESS_MAX:
            raise TooManyLogins
        if self.count >= PLACES_MAX and not self._displace(self._held[address]):
            raise TooManyLogins
        self._held[address] += 1
        try:
            yield
        finally:
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]

    async def run(self, address: str, work: Callable[..., Answer], *arguments: str) -> Answer:
        """Wait for the turn of *address*, run *work* in a thread, and return its result.

        Raises:
            TooManyLogins: The place was given to another address.
        """
        await self._turn(address)
        running = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        # The turn ends when the thread is free, also if the caller was cancelled earlier.
        running.add_done_callback(self._ended)
        try:
            return await asyncio.shield(running)
        finally:
            # An error refers to this frame: with the future in it, both and all that the work holds
            # would stay in memory until the garbage collector finds them.
            del running

    async def _turn(self, address: str) -> None:
        if self._idle and not self._waiting:
            self._idle -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            else:
                self._leave(address, turn)
            raise

    def _leave(self, address: str, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(address, deque())
        if turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[address]

    def _ended(self, running: "asyncio.Future[Answer]") -> None:
        if not running.cancelled():
            running.exception()  # asyncio logs exceptions that a cancelled caller did not read
        self._pass_on()

    def _pass_on(self) -> None:
        """Give the free thread to the next address."""
        while self._waiting:
            address, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._idle += 1

    def _displace(self, held: int) -> bool:
        """Free a place of the busiest address, if it has more than one above *held*."""
        if not self._waiting:
            return False
        turns = max(self._waiting.values(), key=len)
        if len(turns) <= held + 1:
            return False
        turn = turns.pop()
        if not turn.done():
            turn.set_exception(TooManyLogins())
        return True
