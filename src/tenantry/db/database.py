"""A database: connections that are opened when needed, under the budget of their server.

A pool for each tenant, times processes, times tenants, would be more connections than any
server has. So all databases of one server share one budget; who needs a connection when
the budget is used up gets the place of the one that has been idle longest, whosever it is.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tenantry.db.sessions import Connection, DatabaseUnavailable, Plane, Session
from tenantry.db.statements import Row, Statement

WAIT_SECONDS_MAX = 5.0


class Budget:
    """How many connections one server gives to this process.

    Args:
        connections_max: At once, over all databases.
    """

    def __init__(self, connections_max: int) -> None:
        self._left = connections_max
        self._idle: dict[Connection, list[Connection]] = {}  # the longest idle first
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for a connection."""
        return bool(self._waiting)

    @property
    def idle_count(self) -> int:
        """How many connections are open and unused."""
        return len(self._idle)

    async def reserve(self) -> None:
        """Take the right to open one connection.

        Raises:
            DatabaseUnavailable: Every connection was in use for `WAIT_SECONDS_MAX`.
        """
        if self._left:
            self._left -= 1
        elif self._idle:
            connection, pool = next(iter(self._idle.items()))
            self.unpark(connection)
            pool.remove(connection)
            try:
                await connection.close()
            except BaseException:
                self.give_back()
                raise
        else:
            await self._wait()

    def give_back(self) -> None:
        """Give the right to whoever waits longest, or keep it."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self._left += 1

    def park(self, connection: Connection, pool: list[Connection]) -> None:
        """Note that *connection*, now in *pool*, may be closed for others."""
        self._idle[connection] = pool

    def unpark(self, connection: Connection) -> None:
        """Note that *connection* is in use again, or gone."""
        del self._idle[connection]

    async def _wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await waiting
        except BaseException as error:
            if waiting.done() and not waiting.cancelled():
                self.give_back()  # it came at the same moment
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            if isinstance(error, TimeoutError):
                raise DatabaseUnavailable from error
            raise


class Database(Session[Plane]):
    """A database: a session whose every statement commits by itself, and `begin` for several.

    Args:
        connect: Opens a connection.
        budget: Of the server.
        connections_max: Of this database, at once; who needs one more waits.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], budget: Budget, connections_max: int
    ) -> None:
        self._connect = connect
        self._budget = budget
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[Connection] = []
        self._closed = False

    async def fetch_all(self, statement: Statement[Row], **values: object) -> list[Row]:
        """Return every row."""
        connection = await self._take()
        try:
            return await connection.run(statement, values)
        finally:
            await self._give_back(connection)

    async def execute(self, statement: Statement[Any], **values: object) -> None:
        """Run a statement that returns nothing."""
        await self.fetch_all(statement, **values)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Session[Plane]]:
        """Open a transaction: committed when the block ends, rolled back if it raises."""
        connection = await self._take()
        try:
            await connection.command(connection.begin_sql)
            try:
                yield connection
            except Exception:
                await self._roll_back(connection)
                raise
            await connection.command("COMMIT")
        finally:
            # One that is still in a transaction (a cancelled block, a failed COMMIT) is
            # not used again; closing it rolls back.
            await self._give_back(connection)

    async def close(self) -> None:
        """Close every connection: the idle ones now, the others when they are given back."""
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            self._budget.unpark(connection)
            await self._close(connection)

    async def _take(self) -> Connection:
        await self._acquire_slot()
        try:
            if self._idle:
                connection = self._idle.pop()
                self._budget.unpark(connection)
                return connection
            await self._budget.reserve()
            try:
                return await self._connect()
            except BaseException:
                self._budget.give_back()
                raise
        except BaseException:
            self._slots.release()
            raise

    async def _acquire_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._slots.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable from error

    async def _give_back(self, connection: Connection) -> None:
        # The place goes back last: who waits for it may need the budget of this connection.
        try:
            if connection.is_reusable and not self._closed and not self._budget.is_short:
                self._idle.append(connection)
                self._budget.park(connection, self._idle)
            else:
                await self._close(connection)
        finally:
            self._slots.release()

    async def _close(self, connection: Connection) -> None:
        try:
            await connection.close()
        finally:
            self._budget.give_back()

    async def _roll_back(self, connection: Connection) -> None:
        try:
            await connection.command("ROLLBACK")
        except Exception:  # noqa: BLE001 - what made it roll back is what counts
            await connection.close()
