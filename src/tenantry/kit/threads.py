"""A pool of daemon threads, which do not prevent the process from exiting.

The standard pool joins its threads at exit, and a thread in an endless loop of a revision cannot
be stopped.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class DaemonThreads(Executor):
    """A pool of at most *threads_max* daemon threads: started on demand, and kept."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, fn: Callable[..., Answer], /, *args: Any, **kwargs: Any) -> "Future[Answer]":
        """Run *fn* in a thread."""
        future: Future[Answer] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - the waiting caller gets it
                future.set_exception(error)
            else:
                future.set_result(answer)

        self._work.put(run)
        if not self._idle.acquire(blocking=False) and self._started < self._threads_max:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Stop idle threads now, and busy ones when they become idle."""
        del wait, cancel_futures
        for _ in range(self._started):
            self._work.put(None)

    def _serve(self) -> None:
        while (run := self._work.get()) is not None:
            run()
            self._idle.release()
