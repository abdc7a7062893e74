"""Stop work in a thread that waits for a socket."""

import asyncio
import contextlib
import socket

import pytest

from tenantry.kit.stopping import Stop, Stopped, run_in_thread


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
            async with asyncio.timeout(5):
                with contextlib.suppress(asyncio.CancelledError):
                    await running
            assert received == [b""]
            near.getpeername()  # the socket itself is open: only its owner closes it

    def test_begins_nothing_after_it_was_set(self):
        stop = Stop()
        stop.set()
        with pytest.raises(Stopped), stop.disconnecting(0):
            pass
