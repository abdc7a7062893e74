"""Cancel the work of a request at its deadline, or when its client disconnects.

Only requests that read are cancelled on a disconnect. A write runs to its end, within the
deadlines of its statements.

One timer checks all requests, because a timer for each would cost as much as a short request. So
a deadline is exact to `CHECK_SECONDS`.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from tenantry.api.error_responses import ClientDisconnected
from tenantry.api.streaming import Receive
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import TenantryError

CHECK_SECONDS = 0.1

Answer = TypeVar("Answer")


@dataclass(slots=True)
class TimeLeft:
    """How long a request may still use databases: less after each `Interruptions.run`."""

    seconds: float


class Interruptions:
    """Cancels work at its deadline, or when its client has disconnected."""

    def __init__(self) -> None:
        self._running: set[_Work] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(
        self, work: Awaitable[Answer], left: TimeLeft, receive: Receive | None = None
    ) -> Answer:
        """Await *work* in the calling task, and return its result.

        Args:
            work: The work.
            left: How long it may take; the time that it took is subtracted.
            receive: The ASGI `receive` of a request that may be cancelled; *work* must not use it.
                It is awaited when the work has taken longer than `CHECK_SECONDS`.

        Raises:
            DatabaseUnavailable: The deadline has passed, and *work* was cancelled.
            ClientDisconnected: The client has disconnected, and *work* was cancelled.
            Exception: Any error of *work*.
        """
        began = monotonic_seconds()
        task = asyncio.current_task()
        assert task is not None
        one = _Work(task, task.cancelling(), began + left.seconds, receive)
        self._running.add(one)
        if self._timer is None:
            self._set_timer()
        try:
            return await work
        except asyncio.CancelledError as error:
            if one.interrupted is not None and one.task.uncancel() <= one.cancelled_before:
                raise one.interrupted from error
            raise
        finally:
            self._running.discard(one)
            one.end()
            left.seconds -= monotonic_seconds() - began

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._timer = None
        now = monotonic_seconds()
        for one in self._running:
            one.check(now)
        if self._running:
            self._set_timer()


@dataclass(slots=True, eq=False)
class _Work:
    """Work in a task."""

    task: "asyncio.Task[Any]"
    cancelled_before: int
    due: float
    receive: Receive | None
    is_new: bool = True
    watching: "asyncio.Task[None] | None" = None
    interrupted: TenantryError | None = None

    def check(self, now: float) -> None:
        """Interrupt the work at its deadline; at the second check, start to watch the client."""
        if now >= self.due:
            self._interrupt(DatabaseUnavailable())
        elif not self.is_new and self.receive is not None and self.watching is None:
            self.watching = asyncio.create_task(self._watch(self.receive))
        self.is_new = False

    def end(self) -> None:
        if self.watching is not None:
            self.watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the body of the request is ignored
        self._interrupt(ClientDisconnected())

    def _interrupt(self, error: TenantryError) -> None:
        if self.interrupted is None:
            self.interrupted = error
            self.task.cancel()
