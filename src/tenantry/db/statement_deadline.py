"""The deadline of the statements of one connection.

Setting and cancelling a timer of the event loop costs as much as all other work on a short
statement. So the timer is not cancelled when a statement ends. When it fires, it compares the clock
with the deadline of the current statement, if there is one, and is set again.
"""

import asyncio
from collections.abc import Callable

from tenantry.kit.clock import monotonic_seconds


class Deadline:
    """Calls a function once when a statement has run for too long; one runs at a time."""

    def __init__(self, seconds: float, on_passed: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_passed = on_passed
        self._loop = asyncio.get_running_loop()
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds_more: float = 0.0) -> None:
        """Begin a statement, which may take *seconds_more* than others."""
        self._due = monotonic_seconds() + self._seconds + seconds_more
        # A timer that is already set fires before this deadline, because no timer is set for
        # more than `seconds`.
        if self._timer is None:
            self._set_timer(self._seconds)

    def end(self) -> None:
        """End the statement."""
        self._due = None

    def close(self) -> None:
        """End the statement and cancel the timer: the connection is closed."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - monotonic_seconds()
        if left > 0:
            self._set_timer(min(left, self._seconds))
        else:
            self._due = None
            self._on_passed()
