"""SIGINT and SIGTERM: the first asks to stop, the second breaks off, the third kills.

SIGTERM alone goes all the way by itself: who sends it (systemd, a container runtime) kills what
has not ended in time, and tells nobody where it was.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# After SIGTERM: what is in work is broken off, and then the process ends, whatever runs.
BREAK_OFF_SECONDS = 15.0
EXIT_SECONDS_MAX = 19.0
# A status of sysexits.h (EX_SOFTWARE): the process did not end by itself.
EXIT_STATUS_KILLED = 70


@dataclass
class Stop:
    """What has been asked of this process.

    Attributes:
        by: The first signal that asked it to stop.
    """

    by: signal.Signals | None = None


@contextmanager
def heeded(begin: Callable[[], None]) -> Iterator[Stop]:
    """Call *begin* at the first signal; at the second, cancel the task that is in the block.

    `BREAK_OFF_SECONDS` after a SIGTERM the task is cancelled as by a second signal, and
    `EXIT_SECONDS_MAX` after it the process exits at once, even if a thread or the event loop
    is stuck. What was committed is durable, and a database rolls back what was not.
    """
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), Stop()
    assert task is not None

    def heed(by: signal.Signals) -> None:
        if stop.by is None:
            stop.by = by
            if by is signal.SIGTERM:
                loop.call_later(BREAK_OFF_SECONDS, break_off)
                _exit_later()
            begin()
            return
        break_off()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def break_off() -> None:
        if not has_ended:
            task.cancel()

    has_ended: list[bool] = []
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, heed, number)
    try:
        yield stop
    finally:
        has_ended.append(True)
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _exit_later() -> None:
    """End the process in `EXIT_SECONDS_MAX`, unless it has ended before."""
    # A thread of its own: the event loop may be stuck, and Python waits for other threads at
    # the end of the process.
    timer = threading.Timer(EXIT_SECONDS_MAX, _exit)
    timer.daemon = True
    timer.start()


def _exit() -> None:
    sys.stderr.write(
        f"tenantry: error: Ended after {EXIT_SECONDS_MAX:.0f} s with work unfinished: it is rolled "
        "back, and another process, or the next start, continues it.\n"
    )
    sys.stderr.flush()
    os._exit(EXIT_STATUS_KILLED)
