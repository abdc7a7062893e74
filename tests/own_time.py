"""The seconds in which this process could run: a pause that the machine makes does not count.

A test that bounds the time of something by the clock fails on a busy machine, whatever our code
does. Here the bound stays as it is promised, and the clock does not count what the machine takes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BEAT_SECONDS = 0.01
# A sleep of one beat may end this late. Whatever is longer is a pause of the machine.
COUNTED_SECONDS_MAX = 2 * BEAT_SECONDS


@contextmanager
def own_seconds() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds in which this process could run, so far.

    What this process computes counts in full; and so does the time in which it waits, for a timer
    or for another process, as long as it is woken when it wants to be.
    """
    counted = _Counted()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            counted.read()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield counted.read
    finally:
        ended.set()
        thread.join()


class _Counted:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._at, self._cpu = time.monotonic(), time.process_time()

    def read(self) -> float:
        """Count what has passed since the last call, and return the sum."""
        with self._lock:
            at, cpu = time.monotonic(), time.process_time()
            could_run = max(COUNTED_SECONDS_MAX, cpu - self._cpu)
            self._seconds += min(at - self._at, could_run)
            self._at, self._cpu = at, cpu
            return self._seconds
