"""Tasks that run for the duration of a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, Result]) -> AsyncIterator["asyncio.Task[Result]"]:
    """Run *work* during the block, and wait for it at the end; cancel it if the block raises.

    If *work* fails, its error is raised: what the block does can fail for that reason.
    """
    task = asyncio.create_task(work)
    try:
        yield task
        await task
    except Exception:
        if task.done():
            task.result()
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
