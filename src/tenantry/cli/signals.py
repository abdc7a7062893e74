"""SIGINT and SIGTERM: the first asks to stop, the second breaks off, the third kills."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Stop:
    """What has been asked of this process.

    Attributes:
        by: The first signal that asked it to stop.
    """

    by: signal.Signals | None = None


@contextmanager
def heeded(begin: Callable[[], None]) -> Iterator[Stop]:
    """Call *begin* at the first signal; at the second, cancel the task that is in the block."""
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), Stop()
    assert task is not None

    def heed(by: signal.Signals) -> None:
        if stop.by is None:
            stop.by = by
            begin()
            return
        task.cancel()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, heed, number)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
