"""How a process that does the work runs: its event loop, and its garbage collector."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

# The work makes few cycles; the default of 700 looks for them far too often.
GC_THRESHOLD = 50_000

Done = TypeVar("Done")


def run(work: Coroutine[Any, Any, Done]) -> Done:
    """Run *work* on the quicker event loop, and return what it returns."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def settle() -> None:
    """Tell the garbage collector that what start-up made stays: it need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
