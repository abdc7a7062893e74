"""Tasks that run for the duration of a block."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog

RESTART_SECONDS = 1.0

Result = TypeVar("Result")

_log = structlog.get_logger(__name__)


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


@asynccontextmanager
async def kept_running(works: Iterable[Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Run each of *works* during the block; restart one after any error."""
    tasks = [asyncio.create_task(_keep(work)) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _keep(work: Callable[[], Awaitable[None]]) -> None:
    """Run *work* until cancelled; restart it after any error."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - it must continue
            _log.exception("background work failed, restarting")
        await asyncio.sleep(RESTART_SECONDS)
