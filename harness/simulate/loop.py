"""An event loop in virtual time, without threads and sockets: one for each simulated process."""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any

from harness.simulate.clock import CLOCK

CALLBACKS_MAX = 10_000
"""In one step, so that a process that makes itself ready again and again does not stop the time."""


class _Handle:
    """What a loop is to call; it has the methods of asyncio's handles that are used."""

    __slots__ = ("_args", "_call", "_context", "_is_cancelled", "_when")

    def __init__(
        self,
        call: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        when: float,
    ) -> None:
        self._call = call
        self._args = args
        self._context = context or copy_context()
        self._when = when
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def cancelled(self) -> bool:
        return self._is_cancelled

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        if not self._is_cancelled:
            self._context.run(self._call, *self._args)


class Loop(asyncio.AbstractEventLoop):
    """Runs what is due at each call of `step`.

    What is given to an executor runs at once: a process has one thread here.

    Attributes:
        failures: What no task has handled.
        frozen_until: It is not stepped before: its process is stopped, as by SIGSTOP.
    """

    def __init__(self) -> None:
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._count = 0
        self.failures: list[dict[str, Any]] = []
        self.frozen_until = 0.0

    @property
    def due(self) -> float | None:
        """When it has something to do, in virtual seconds; None if never."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._ready:
            return max(CLOCK.now, self.frozen_until)
        return max(self._timers[0][0], self.frozen_until) if self._timers else None

    def step(self) -> None:
        """Run the next callback, which is due, and what it makes ready.

        This takes no virtual time: a transaction begins later, after `Store.delay`, so that those
        of other processes may come first.
        """
        if not self._ready:
            self._ready.append(heapq.heappop(self._timers)[2])
        asyncio._set_running_loop(self)
        try:
            for _ in range(CALLBACKS_MAX):
                self._ready.popleft().run()
                if not self._ready:
                    return
        finally:
            asyncio._set_running_loop(None)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Let the block find this loop as the one that runs."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def time(self) -> float:
        """Return the virtual time."""
        return CLOCK.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        """Call back in the next step."""
        handle = _Handle(callback, args, context, CLOCK.now)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        """Call back at a virtual time."""
        handle = _Handle(callback, args, context, when)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        """Call back after *delay* seconds."""
        return self.call_at(CLOCK.now + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        """Return a task of this loop."""
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Run *func* now, and return its result as a future that is done."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the result
            done.set_exception(error)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what no task has handled."""
        self.failures.append(context)

    def get_debug(self) -> bool:
        """Return False: it is slow."""
        return False

    def is_running(self) -> bool:
        """Return True: it runs whenever it is stepped."""
        return True

    def is_closed(self) -> bool:
        """Return False."""
        return False
