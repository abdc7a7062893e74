"""End the work of a request whose client has gone.

Only of a request that reads: a write that has begun runs to its end, within the deadlines of its
statements, so that a client that was cut off finds all of it or nothing.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from tenantry.api.envelope import HttpError
from tenantry.api.pieces import Receive

# Most requests are answered sooner, and cost no more than a timer.
WATCH_AFTER_SECONDS = 0.1

Answer = TypeVar("Answer")


class ClientLeft(HttpError):
    """The client closed the connection before it had an answer."""


async def unless_gone(work: Awaitable[Answer], receive: Receive) -> Answer:
    """Return what *work* returns, or cancel it when the client closes the connection.

    Args:
        work: Reads, and is awaited in the calling task.
        receive: Of a request whose body is not read by *work*.

    Raises:
        ClientLeft: The client has gone, and *work* was cancelled.
        Exception: Whatever *work* raises.
    """
    watch = _Watch(receive)
    timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, watch.begin)
    try:
        return await work
    except asyncio.CancelledError:
        if watch.has_left and watch.task.uncancel() == 0:
            raise ClientLeft from None
        raise
    finally:
        timer.cancel()
        watch.end()


class _Watch:
    """Waits for the end of the connection beside a task, and cancels it then."""

    def __init__(self, receive: Receive) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.has_left = False
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the rest of a body that nobody reads
        self.has_left = True
        self.task.cancel()
