"""The thread of a connection to SQLite, which runs functions one after the other.

One function may run several statements: a switch to the thread costs as much as ten of them.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")

_Work = tuple["asyncio.Future[Any]", Callable[[], Any]]


class ConnectionThread:
    """Runs functions for the event loop that creates it. `end` must be called.

    It is a daemon thread: one that waits for the disk does not prevent the process from exiting.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._has_ended = False
        threading.Thread(target=self._serve, name="sqlite", daemon=True).start()

    def run(self, work: Callable[[], Answer]) -> "asyncio.Future[Answer]":
        """Return the result of *work*, which runs after what was given before.

        The future may be cancelled, or completed by the caller: the work still runs.

        Raises:
            sqlite3.ProgrammingError: As the result: the thread has ended.
            Exception: As the result: any error of *work*.
        """
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if self._has_ended:
            answer.set_exception(sqlite3.ProgrammingError("The connection is closed."))
        else:
            self._work.put((answer, work))
        return answer

    def end(self) -> None:
        """End the thread when it has run everything that it was given."""
        self._has_ended = True
        self._work.put(None)

    def _serve(self) -> None:
        while (given := self._work.get()) is not None:
            answer, work = given
            try:
                result, error = work(), None
            except BaseException as raised:  # noqa: BLE001 - the waiting caller gets it
                result, error = None, raised
            # The loop may have been closed: then no caller waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_complete, answer, result, error)
            del given, answer, work, result, error


def _complete(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
