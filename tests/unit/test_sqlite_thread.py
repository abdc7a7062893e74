"""The thread of a connection to SQLite."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator

import pytest

from tenantry.db.sqlite.connections import ConnectionThread


@pytest.fixture(name="thread")
async def _thread() -> AsyncIterator[ConnectionThread]:
    thread = ConnectionThread()
    yield thread
    thread.end()


class TestAConnectionThread:
    async def test_runs_everything_in_one_thread_in_order(self, thread: ConnectionThread) -> None:
        ran: list[int] = []
        for number in range(10):
            thread.run(lambda number=number: ran.append(number))  # type: ignore[misc]

        assert await thread.run(threading.get_ident) != threading.get_ident()
        assert ran == list(range(10))

    async def test_raises_the_error_of_the_work(self, thread: ConnectionThread) -> None:
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 / 0)

    async def test_continues_after_an_answer_that_was_abandoned(
        self, thread: ConnectionThread
    ) -> None:
        hold = threading.Event()
        abandoned = thread.run(hold.wait)
        abandoned.cancel()
        hold.set()

        assert await thread.run(lambda: 7) == 7

    async def test_refuses_work_after_its_end(self, thread: ConnectionThread) -> None:
        thread.end()

        with pytest.raises(sqlite3.ProgrammingError):
            async with asyncio.timeout(30):
                await thread.run(lambda: 7)
