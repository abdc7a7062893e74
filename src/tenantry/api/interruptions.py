"""Cancel the work of a request: at its deadline, or when its client has gone.

The client matters only to a request that reads: a write that has begun runs to its end, within
the deadlines of its statements, so that a client that was cut off finds all of it or nothing.

One timer for all requests checks them, because a timer for each costs as much as a short request.
So a deadline is exact to `CHECK_SECONDS`.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from tenantry.api.envelope import HttpError
from tenantry.api.streaming import Receive
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import TenantryError

CHECK_SECONDS = 0.1

Answer = TypeVar("Answer")


class ClientLeft(HttpError):
    """The client closed the connection before it had an answer."""


class Interruptions:
    """Cancels work that takes too long, or whose client has gone."""

    def __init__(self) -> None:
        self._under_way: set[_Work] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self, work: Awaitable[Answer], *, seconds: float, receive: Receive | None = None
    ) -> Answer:
        """Return what *work* returns.

        Args:
            work: Is awaited in the calling task.
            seconds: That it may take.
            receive: Of a request that reads, and whose body is not read by *work*. It is awaited
                once the work has taken `CHECK_SECONDS`, which most work does not.

        Raises:
            DatabaseUnavailable: It took longer, and was cancelled.
            ClientLeft: The client has gone, and *work* was cancelled.
            Exception: Whatever *work* raises.
        """
        one = _Work(monotonic_seconds() + seconds, receive)
        self._under_way.add(one)
        if self._timer is None:
            self._set_timer()
        try:
            return await work
        except asyncio.CancelledError as error:
            if one.interrupted is not None and one.task.uncancel() <= one.cancelled_before:
                raise one.interrupted from error
            raise
        finally:
            self._under_way.discard(one)
            one.end()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        now = monotonic_seconds()
        for one in self._under_way:
            one.check(now)
        if self._under_way:
            self._set_timer()


class _Work:
    """Work in the current task."""

    def __init__(self, due: float, receive: Receive | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.cancelled_before = task.cancelling()
        self.interrupted: TenantryError | None = None
        self._due = due
        self._receive = receive
        self._is_new = True
        self._watching: asyncio.Task[None] | None = None

    def check(self, now: float) -> None:
        """Interrupt the work at its deadline; begin to wait for the client at the second check."""
        if now >= self._due:
            self._interrupt(DatabaseUnavailable())
        elif not self._is_new and self._receive is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self._receive))
        self._is_new = False

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the rest of a body that is not read
        self._interrupt(ClientLeft())

    def _interrupt(self, error: TenantryError) -> None:
        if self.interrupted is None:
            self.interrupted = error
            self.task.cancel()
