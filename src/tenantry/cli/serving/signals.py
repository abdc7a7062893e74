"""SIGINT and SIGTERM: the first one stops, the second one interrupts, the third one kills.

After one SIGTERM, the process itself interrupts and exits after a while: the sender (systemd, a
container runtime) would kill it after its own timeout, without any message.
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

# After SIGTERM: unfinished work is interrupted, and then the process exits in any case.
INTERRUPT_SECONDS = 15.0
EXIT_SECONDS_MAX = 19.0
# EX_SOFTWARE of sysexits.h: the process did not end normally.
EXIT_STATUS_KILLED = 70


@dataclass
class Stop:
    """The request to stop this process.

    Attributes:
        received: The first signal; None before it.
    """

    received: signal.Signals | None = None


@contextmanager
def handled(begin: Callable[[], object] = lambda: None) -> Iterator[Stop]:
    """Call *begin* at the first signal; at the second one, cancel the task of the block.

    `INTERRUPT_SECONDS` after a SIGTERM the task is cancelled as by a second signal.
    `EXIT_SECONDS_MAX` after it the process exits, even if a thread or the event loop is stuck.
    Committed work is durable, and the database rolls back the rest.
    """
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), Stop()
    assert task is not None
    has_ended = False

    def handle(by: signal.Signals) -> None:
        if stop.received is None:
            stop.received = by
            if by is signal.SIGTERM:
                loop.call_later(INTERRUPT_SECONDS, interrupt)
                _exit_later()
            begin()
            return
        interrupt()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def interrupt() -> None:
        if not has_ended:
            task.cancel()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        yield stop
    finally:
        has_ended = True
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _exit_later() -> None:
    """Exit the process in `EXIT_SECONDS_MAX`, unless it has ended before."""
    # In a daemon thread: the event loop may be stuck, and Python waits for other threads at the
    # end of the process.
    timer = threading.Timer(EXIT_SECONDS_MAX, _exit)
    timer.daemon = True
    timer.start()


def _exit() -> None:
    sys.stderr.write(
        f"tenantry: error: Ended after {EXIT_SECONDS_MAX:.0f} s with unfinished work. It is rolled "
        "back; another process, or the next start, continues it.\n"
    )
    sys.stderr.flush()
    os._exit(EXIT_STATUS_KILLED)
