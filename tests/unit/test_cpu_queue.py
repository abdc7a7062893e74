"""The queue in which passwords are hashed."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tenantry.access.cpu_queue import PLACES_MAX, PLACES_OF_ADDRESS_MAX, FairQueue, TooManyLogins


class Work:
    """Records the names in the order of their turns; starts when `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.done: list[str] = []

    def __call__(self, name: str) -> str:
        self.go.wait(10)
        self.done.append(name)
        return name


@pytest.fixture(name="pool")
def _pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def asked(waiting: FairQueue, address: str, work: Work, name: str) -> str:
    with waiting.place(address):
        return await waiting.run(address, work, name)


async def start(waiting: FairQueue, work: Work, *names: str) -> list["asyncio.Task[str]"]:
    """Ask for work of the addresses that *names* begin with, one after the other."""
    tasks = [asyncio.create_task(asked(waiting, name[0], work, name)) for name in names]
    await asyncio.sleep(0.01)
    return tasks


class TestFairQueue:
    async def test_lets_addresses_take_turns(self, pool: ThreadPoolExecutor):
        waiting, work = FairQueue(pool, 1), Work()
        tasks = await start(waiting, work, "a1", "a2", "a3", "a4", "b1", "b2", "c1")

        work.go.set()
        await asyncio.gather(*tasks)

        assert work.done == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
        assert waiting.count == 0

    async def test_has_a_bound_for_each_address(self, pool: ThreadPoolExecutor):
        waiting = FairQueue(pool, 1)

        with ExitStack() as held:
            for _ in range(PLACES_OF_ADDRESS_MAX):
                held.enter_context(waiting.place("a"))
            with pytest.raises(TooManyLogins), waiting.place("a"):
                pass
            with waiting.place("b"):
                assert waiting.count == PLACES_OF_ADDRESS_MAX + 1
        assert waiting.count == 0

    async def test_takes_a_place_from_the_address_that_has_most(self, pool: ThreadPoolExecutor):
        waiting, work = FairQueue(pool, 1), Work()
        with ExitStack() as held:
            for number in range(PLACES_MAX - 4):
                held.enter_context(waiting.place(f"other {number}"))
            tasks = await start(waiting, work, "a1", "a2", "a3", "a4", "b1")

            work.go.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(found[3], TooManyLogins)
        assert work.done == ["a1", "a2", "b1", "a3"]
        assert waiting.count == 0

    async def test_goes_on_when_callers_go_away(self, pool: ThreadPoolExecutor):
        waiting, work = FairQueue(pool, 1), Work()
        tasks = await start(waiting, work, "a1", "a2", "b1", "b2", "c1")
        for task in (tasks[0], tasks[1], tasks[2]):
            task.cancel()
        await asyncio.sleep(0.01)

        work.go.set()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert work.done == ["a1", "b2", "c1"]
        assert waiting.count == 0
        assert await asked(waiting, "a", work, "a3") == "a3"
