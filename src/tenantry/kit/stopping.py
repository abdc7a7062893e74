"""Blocking work in a thread that can be stopped: a thread itself cannot be cancelled."""

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Event, Lock
from typing import Any, TypeVar

from tenantry.kit.threads import DaemonThreads

Result = TypeVar("Result")


class Stopped(Exception):
    """The work was stopped."""


class Stop:
    """Stops work in a thread: the work calls `check`, and what it waits for is ended.

    A server that does not answer would never end a wait: cancelling a statement needs its answer.
    """

    def __init__(self) -> None:
        self._event = Event()
        self._lock = Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._sockets: set[int] = set()
        self._calls: set[Callable[[], object]] = set()

    def set(self) -> None:
        """Stop the work, kill its child processes, shut down its sockets, cancel its calls."""
        with self._lock:
            self._event.set()
            for child in self._children:
                child.kill()
            for handle in self._sockets:
                shut_down(handle)
            for cancel in self._calls:
                cancel()

    @property
    def is_set(self) -> bool:
        """Whether the work is to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Sleep, at most until the work is stopped."""
        self._event.wait(seconds)

    def check(self, *_: Any) -> None:
        """Raise an error if the work is to stop.

        Raises:
            Stopped: It is.
        """
        if self._event.is_set():
            raise Stopped

    @contextmanager
    def killing(self, child: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Kill *child* when the work is stopped, or when the block raises; it has ended after."""
        with self._lock:
            self._children.add(child)
            if self._event.is_set():
                child.kill()
        try:
            yield
        except BaseException:
            child.kill()
            raise
        finally:
            child.wait()
            with self._lock:
                self._children.discard(child)

    @contextmanager
    def disconnecting(self, handle: int) -> Iterator[None]:
        """Shut down a socket if the work is stopped in the block: waiting for it ends at once.

        The file descriptor stays open in the block.
        """
        with self._lock:
            self.check()
            self._sockets.add(handle)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(handle)

    def call(self, work: Callable[[], Awaitable[Result]], *, seconds: float) -> Result:
        """Wait for what *work* returns in an event loop of its own, and a thread of its own.

        For libraries with blocking calls that can neither be cancelled nor given a deadline.

        Raises:
            Stopped: The work was stopped.
            TimeoutError: It took longer than *seconds*. *work* was cancelled, as it is if stopped.
        """

        async def bounded() -> Result:
            task = asyncio.current_task()
            assert task is not None
            cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
            with self._lock:
                self.check()
                self._calls.add(cancel)
            try:
                async with asyncio.timeout(seconds):
                    return await work()
            finally:
                with self._lock:
                    self._calls.discard(cancel)

        thread = DaemonThreads(1, "call")  # the caller's can have an event loop that runs
        running = thread.submit(lambda: asyncio.run(bounded()))
        thread.shutdown()
        try:
            return running.result()
        except asyncio.CancelledError as error:
            raise Stopped from error


# Of the work in this thread: for a stream at the end of a chain of readers or writers, such as
# those of an archive, which do not pass it on.
_current: ContextVar[Stop | None] = ContextVar("current_stop", default=None)


def current_stop() -> Stop:
    """Return the `Stop` of the work that runs in this thread; outside of any, a new one."""
    return _current.get() or Stop()


def shut_down(handle: int) -> None:
    """Shut down a socket: what waits for it ends, and closing it resets the connection.

    Without a reset, a server that waits to send more would wait for another minute.
    """
    # A copy of the descriptor, because `socket` closes its own.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as copied:
        copied.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        copied.shutdown(socket.SHUT_RDWR)


def start_thread(work: Callable[[], Result], stop: Stop | None = None) -> "asyncio.Future[Result]":
    """Start *work* in a thread of its own; return its future result. *stop* stops it.

    For work that can take long: the pool of `asyncio.to_thread` has few threads, and requests need
    them. The callers bound the number of these threads: each belongs to a job, to a command, to a
    list of archives, to a new tenant, or to the probe of a server.
    """
    thread = DaemonThreads(1, "work")
    context = copy_context()
    context.run(_current.set, stop)
    running = asyncio.get_running_loop().run_in_executor(thread, context.run, work)
    thread.shutdown()  # it ends after this work
    return running


async def run_in_thread(work: Callable[[Stop], Result]) -> Result:
    """Return what *work* returns; on a cancellation, stop it and wait for its end.

    It has a thread of its own, see `start_thread`.
    """
    stop = Stop()
    running = start_thread(partial(work, stop), stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()
        raise


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[Result]) -> AsyncIterator[Result]:
    """Enter and leave *manager* in a thread: both can take seconds, such as a sync of a file.

    On a cancellation, the end of the thread is awaited, and what was entered is left.
    """
    entered = False

    def enter() -> Result:
        nonlocal entered
        value = manager.__enter__()
        entered = True
        return value

    try:
        value = await run_in_thread(lambda _stop: enter())
        yield value
    except BaseException as error:
        leaving = partial(manager.__exit__, type(error), error, error.__traceback__)
        if not entered or not await run_in_thread(lambda _stop: leaving()):
            raise
    else:
        await run_in_thread(lambda _stop: manager.__exit__(None, None, None))
