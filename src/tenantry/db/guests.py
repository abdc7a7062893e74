"""SQLAlchemy as a guest on a driver's connection that is already in a transaction of ours.

A revision that runs live wants a SQLAlchemy connection, and must run in the same
transaction as what stands around it. A guest therefore neither begins nor ends anything,
and closes nothing.

A revision can compute for as long as it likes, so it runs in a thread: requests go on
meanwhile. On PostgreSQL the connection stays with its event loop, and the thread hands
each call over to it.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent import futures
from concurrent.futures import Executor
from typing import Any

import asyncpg
import greenlet  # type: ignore[import-untyped]
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

# How long a thread that was told to stop may take until nobody waits for it any more.
STOP_SECONDS_MAX = 5.0


def on_sqlite(raw: sqlite3.Connection) -> sa.Connection:
    """Return a guest on *raw*. It need not be closed."""
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: raw,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        hide_parameters=True,
    )
    # The transaction is not the guest's. SQLAlchemy's AUTOCOMMIT would not do: it assigns
    # ``isolation_level``, and Python's driver answers that with a COMMIT.
    for ending in ("do_begin", "do_commit", "do_rollback"):
        setattr(engine.dialect, ending, _leave_alone)
    return engine.connect()


def _leave_alone(_raw: object) -> None:
    """Do nothing."""


async def on_postgresql(
    raw: "asyncpg.Connection[asyncpg.Record]",
    threads: Executor,
    work: Callable[[sa.Connection], None],
) -> None:
    """Run *work* in a thread, with a guest on *raw*.

    When this is cancelled, the next thing that *work* asks of the database is refused.
    """
    bridge = _Bridge(asyncio.get_running_loop())
    running = bridge.loop.run_in_executor(threads, bridge.run, lambda: _with_guest(raw, work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        bridge.is_closed = True
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([running], timeout=STOP_SECONDS_MAX)
        raise


def _with_guest(
    raw: "asyncpg.Connection[asyncpg.Record]", work: Callable[[sa.Connection], None]
) -> None:
    async def creator() -> Any:
        return raw

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=creator,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
    )
    # SQLAlchemy would close a connection that it thinks is broken, in a loop of its own.
    for ending in ("do_close", "do_terminate"):
        setattr(engine.sync_engine.dialect, ending, _leave_alone)
    with engine.sync_engine.connect() as connection:
        work(connection)


class _Bridge:
    """Runs synchronous SQLAlchemy in a thread, and what it awaits in the connection's loop.

    SQLAlchemy's own bridge (`greenlet_spawn`) does the same with both in one thread. It
    recognises another by the attribute of the greenlet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_closed = False

    def run(self, work: Callable[[], None]) -> None:
        """Run *work*, in this thread."""
        guest = _Greenlet(work, greenlet.getcurrent())
        asked = guest.switch()
        while not guest.dead:
            try:
                answer = self._await(asked)
            except BaseException as error:  # noqa: BLE001 - it is work's to handle
                asked = guest.throw(error)
            else:
                asked = guest.switch(answer)

    def _await(self, awaitable: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            if self.is_closed:
                if asyncio.iscoroutine(awaitable):
                    awaitable.close()
                raise TimeoutError
            return await awaitable

        try:
            return asyncio.run_coroutine_threadsafe(wait(), self.loop).result()
        except (asyncio.CancelledError, futures.CancelledError) as error:
            # SQLAlchemy answers a cancellation by closing the connection, which is not its own.
            raise TimeoutError from error


class _Greenlet(greenlet.greenlet):  # type: ignore[misc]
    __sqlalchemy_greenlet_provider__ = True
