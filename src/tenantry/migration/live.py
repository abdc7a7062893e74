"""SQLAlchemy as a guest on a driver's connection that is already in a transaction of ours.

A revision wants a SQLAlchemy connection, and must run in the same transaction as what
stands around it. A guest therefore neither begins nor ends anything, and closes nothing.

A revision can compute for as long as it likes, so it runs in a thread: requests go on
meanwhile. On PostgreSQL the connection stays with its event loop, and the thread hands
each call over to it.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, cast

import asyncpg
import greenlet  # type: ignore[import-untyped]
import sqlalchemy as sa
from sqlalchemy.pool import Pool, StaticPool
from sqlalchemy.util.concurrency import greenlet_spawn

from tenantry.migration.cursors import GuestConnection
from tenantry.migration.dialects import SQLITE_GUEST, PostgresGuest

# How long a thread that was told to stop may take until nobody waits for it any more.
STOP_SECONDS_MAX = 5.0


def on_sqlite(raw: sqlite3.Connection) -> sa.Connection:
    """Return a guest on *raw*. It need not be closed."""
    pool = StaticPool(lambda _record=None: cast("Any", raw), reset_on_return=None)
    return engine_over(SQLITE_GUEST, pool).connect()


def engine_over(dialect: sa.Dialect, pool: Pool) -> sa.Engine:
    """Return an engine that does not look at the server first, unlike ``create_engine``."""
    pool._dialect = dialect  # noqa: SLF001 - as ``create_engine`` does
    return sa.Engine(pool, dialect, sa.URL.create(dialect.name), hide_parameters=True)


class PostgresHost:
    """Has guests on one connection, in threads, one after the other.

    Args:
        raw: The connection.
        dialect: Of the guests.
        threads: Where they run.
    """

    def __init__(
        self,
        raw: "asyncpg.Connection[asyncpg.Record]",
        dialect: PostgresGuest,
        threads: Executor,
    ) -> None:
        self._dialect = dialect
        self._threads = threads
        self._adapted = GuestConnection(dialect.loaded_dbapi, raw)
        self._engine: sa.Engine | None = None

    async def run(self, work: Callable[[sa.Connection], None], *, holds: bool) -> None:
        """Run *work* in a thread, with a guest.

        When this is cancelled, the next thing that *work* asks of the database is refused.

        Args:
            work: What to do.
            holds: Whether DDL may be held back; `take_held` returns what is left of it.
        """
        if self._engine is None:
            # Nothing is asked of the server.
            await greenlet_spawn(self._dialect.prepare, self._adapted)
            pool = StaticPool(lambda: cast("Any", self._adapted), reset_on_return=None)
            self._engine = engine_over(self._dialect, pool)
        self._adapted.holds = holds
        bridge = _Bridge(asyncio.get_running_loop())
        running = bridge.loop.run_in_executor(
            self._threads, bridge.run, lambda: self._with_guest(work)
        )
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            bridge.is_closed = True
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([running], timeout=STOP_SECONDS_MAX)
            raise
        except Exception:
            self.take_held()
            raise

    def take_held(self) -> list[str]:
        """Return what the last guest has left to be sent before anything else."""
        return self._adapted.take_held()

    def _with_guest(self, work: Callable[[sa.Connection], None]) -> None:
        assert self._engine is not None
        with self._engine.connect() as connection:
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
        # As `asyncio.run_coroutine_threadsafe`, for a tenth of what that costs.
        answered = threading.Lock()
        answered.acquire()
        asked: list[asyncio.Future[Any]] = []

        def ask() -> None:
            if self.is_closed:
                if asyncio.iscoroutine(awaitable):
                    awaitable.close()
                answered.release()
                return
            asked.append(asyncio.ensure_future(awaitable, loop=self.loop))
            asked[0].add_done_callback(lambda _: answered.release())

        self.loop.call_soon_threadsafe(ask)
        answered.acquire()
        if not asked or asked[0].cancelled():
            # SQLAlchemy answers a cancellation by closing the connection, which is not its own.
            raise TimeoutError
        return asked[0].result()


class _Greenlet(greenlet.greenlet):  # type: ignore[misc]
    __sqlalchemy_greenlet_provider__ = True
