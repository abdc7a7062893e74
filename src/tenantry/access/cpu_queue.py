"""A bounded queue for CPU-bound work in threads: round-robin over client addresses."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from tenantry.kit.errors import Unavailable
from tenantry.kit.turns import NoTurn, Turns

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
        self._turns = Turns(threads)  # with at most as many waiting tasks as places are held
        self._held: Counter[str] = Counter()

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
        if self.count >= PLACES_MAX and not self._turns.displace(more_than=self._held[address] + 1):
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
        try:
            await self._turns.take(address)
        except NoTurn as error:
            raise TooManyLogins from error
        running = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        # The turn ends when the thread is free, also if the caller was cancelled earlier.
        running.add_done_callback(self._ended)
        try:
            return await asyncio.shield(running)
        finally:
            # An error refers to this frame: with the future in it, both and all that the work holds
            # would stay in memory until the garbage collector finds them.
            del running

    def _ended(self, running: "asyncio.Future[Answer]") -> None:
        if not running.cancelled():
            running.exception()  # asyncio logs exceptions that a cancelled caller did not read
        self._turns.give_back()
