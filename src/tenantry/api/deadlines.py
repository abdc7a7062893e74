"""Cancel the work of a request at its deadline, or when its client disconnects.

Only requests that read are cancelled on a disconnect. A write runs to its end, within the
deadlines of its statements.

One timer checks all requests, because a timer for each would cost as much as a short request. So
a deadline is exact to `CHECK_SECONDS`.
"""

import asyncio
from types import TracebackType
from typing import Any

from tenantry.api.error_responses import ClientDisconnected
from tenantry.api.streaming import Receive
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import TenantryError

CHECK_SECONDS = 0.1


class Deadline:
    """How long one request may still use databases. Its time runs inside ``with`` blocks.

    A block raises `DatabaseUnavailable` when the time is over, and `ClientDisconnected` when the
    client has disconnected and `receive` is set; what it awaits is cancelled first.

    Attributes:
        seconds_left: Less after each block.
        receive: The ASGI `receive` of a request that may be cancelled, which a block must not use.
            It is awaited when the block has taken longer than `CHECK_SECONDS`.
    """

    __slots__ = (
        "_cancelled_before",
        "_deadlines",
        "_due",
        "_interrupted",
        "_is_new",
        "_task",
        "_watching",
        "receive",
        "seconds_left",
    )

    def __init__(self, deadlines: "Deadlines", seconds: float) -> None:
        self._deadlines = deadlines
        self.seconds_left = seconds
        self.receive: Receive | None = None
        self._interrupted: TenantryError | None = None
        self._watching: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        """Let the time run."""
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._cancelled_before = task.cancelling()
        self._due = monotonic_seconds() + self.seconds_left
        self._is_new = True
        self._deadlines.running.add(self)
        if self._deadlines.timer is None:
            self._deadlines.set_timer()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop the time, and raise the reason of an interruption."""
        self._deadlines.running.discard(self)
        self.seconds_left = self._due - monotonic_seconds()
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        interrupted, self._interrupted = self._interrupted, None
        if interrupted is None or not isinstance(error, asyncio.CancelledError):
            return
        if self._task.uncancel() <= self._cancelled_before:
            raise interrupted from error

    def check(self, now: float) -> None:
        """Interrupt the block at its deadline; at the second check, start to watch the client."""
        if now >= self._due:
            self._interrupt(DatabaseUnavailable())
        elif not self._is_new and self.receive is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self.receive))
        self._is_new = False

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the body of the request is ignored
        self._interrupt(ClientDisconnected())

    def _interrupt(self, error: TenantryError) -> None:
        if self._interrupted is None:
            self._interrupted = error
            self._task.cancel()


class Deadlines:
    """Checks the blocks of all requests.

    Attributes:
        running: The deadlines whose time runs.
        timer: Set while there is one.
    """

    def __init__(self) -> None:
        self.running: set[Deadline] = set()
        self.timer: asyncio.TimerHandle | None = None

    def set_timer(self) -> None:
        """Check the deadlines after `CHECK_SECONDS`, until none is running."""
        self.timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self.timer = None
        now = monotonic_seconds()
        for one in self.running:
            one.check(now)
        if self.running:
            self.set_timer()
