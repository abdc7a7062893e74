"""The event loop and the garbage collector of a process."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

# There are few reference cycles; the default of 700 collects far too often.
GC_THRESHOLD = 50_000

Done = TypeVar("Done")


def run(work: Coroutine[Any, Any, Done]) -> Done:
    """Run *work* on uvloop, and return its result."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def settle() -> None:
    """Exclude the objects created at the start from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
