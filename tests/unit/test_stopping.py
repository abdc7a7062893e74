"""Stop work in a thread that waits for a socket."""

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

import pytest

from tenantry.kit.stopping import Stop, Stopped, entered_in_thread, run_in_thread


class TestStop:
    async def test_ends_the_wait_for_a_server_that_does_not_answer(self):
        near, far = socket.socketpair()
        received: list[bytes] = []

        def work(stop: Stop) -> None:
            with stop.disconnecting(near.fileno()):
                received.append(near.recv(1))

        with near, far:
            running = asyncio.create_task(run_in_thread(work))
            await asyncio.sleep(0.05)
            running.cancel()
            async with asyncio.timeout(30):
                with contextlib.suppress(asyncio.CancelledError):
                    await running
            assert received == [b""]
            near.getpeername()  # the socket itself is open: only its owner closes it

    def test_resets_a_connection_whose_server_waits_to_send(self):
        """Otherwise a process of PostgreSQL, and its snapshot, would stay for a minute."""
        stop = Stop()
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        with far:
            far.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                while far.send(bytes(65_536)):
                    pass
            with stop.disconnecting(near.fileno()):
                stop.set()
                while near.recv(16_384):  # as libpq does before it closes the connection
                    pass
            near.close()

            poll = select.poll()
            poll.register(far, 0)  # its end alone
            assert poll.poll(5_000)

    def test_begins_nothing_after_it_was_set(self):
        stop = Stop()
        stop.set()
        with pytest.raises(Stopped), stop.disconnecting(0):
            pass


# More than the default pool of asyncio has threads.
MANY = (os.cpu_count() or 1) + 5
WAIT_SECONDS = 20


class TestRunInThread:
    async def test_leaves_the_threads_of_short_work_free(self):
        """The contents of a post are searched in one of them, when it is saved."""
        end = Event()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MANY):
                tasks.create_task(run_in_thread(lambda _stop: end.wait(WAIT_SECONDS)))
            await asyncio.sleep(0.1)
            try:
                async with asyncio.timeout(30):
                    assert await asyncio.to_thread(lambda: "done") == "done"
            finally:
                end.set()

    async def test_knows_the_context_of_its_caller(self):
        """The log has it."""
        variable = ContextVar("variable", default="")
        variable.set("of the caller")

        assert await run_in_thread(lambda _stop: variable.get()) == "of the caller"


class TestEnteredInThread:
    async def test_leaves_the_threads_of_short_work_free(self):
        end = Event()

        @contextmanager
        def slow() -> Iterator[None]:
            end.wait(WAIT_SECONDS)
            yield

        async def enter() -> None:
            async with entered_in_thread(slow()):
                pass

        async with asyncio.TaskGroup() as tasks:
            for _ in range(MANY):
                tasks.create_task(enter())
            await asyncio.sleep(0.1)
            try:
                async with asyncio.timeout(30):
                    assert await asyncio.to_thread(lambda: "done") == "done"
            finally:
                end.set()
