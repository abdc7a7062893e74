"""A database: connections that are opened when needed, under the budget of their server.

A pool for each tenant, times processes, times tenants, would be more connections than any
server has. So all databases of one server share one budget; who needs a connection when
the budget is used up gets the place of the one that has been idle longest, whosever it is.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tenantry.db.sessions import (
    Connection,
    DatabaseUnavailable,
    Plane,
    Session,
    TransactionLost,
)
from tenantry.db.statements import Row, Statement

WAIT_SECONDS_MAX = 5.0
# When the process ends.
CLOSE_SECONDS_MAX = 2.0
# How long a request waits until the connection that it used is closed; the closing goes on.
DROP_SECONDS_MAX = 0.25


class Budget:
    """How many connections one server gives to this process.

    Args:
        connections_max: At once, over all databases.
    """

    def __init__(self, connections_max: int) -> None:
        self._most = self._left = connections_max
        self._idle: dict[Connection, list[Connection]] = {}  # the longest idle first
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for a connection."""
        return bool(self._waiting)

    @property
    def open_count(self) -> int:
        """How many connections are open, or about to be."""
        return self._most - self._left

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
        if not wake_first(self._waiting):
            self._left += 1

    def park(self, connection: Connection, pool: list[Connection]) -> None:
        """Note that *connection*, now in *pool*, may be closed for others."""
        self._idle[connection] = pool

    def unpark(self, connection: Connection) -> None:
        """Note that *connection* is in use again, or gone."""
        del self._idle[connection]

    def retire_idle(self) -> None:
        """Let nobody use the idle connections again: their server has stopped answering."""
        for connection in self._idle:
            connection.retire()

    async def _wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await wait_for_turn(waiting, self._waiting, self.give_back)


def wake_first(waiting: deque[asyncio.Future[None]]) -> bool:
    """Let the first of those *waiting* have its turn; return whether there was one."""
    while waiting:
        first = waiting.popleft()
        if not first.done():
            first.set_result(None)
            return True
    return False


async def wait_for_turn(
    turn: asyncio.Future[None],
    waiting: deque[asyncio.Future[None]],
    pass_on: Callable[[], None],
) -> None:
    """Wait for *turn*, which is among those *waiting*.

    Args:
        turn: Done when it comes.
        waiting: Left when it does not.
        pass_on: Called when it came to somebody who had just stopped waiting.

    Raises:
        DatabaseUnavailable: It did not come within `WAIT_SECONDS_MAX`.
    """
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await turn
    except BaseException as error:
        if turn.done() and not turn.cancelled():
            pass_on()
        elif turn in waiting:
            waiting.remove(turn)
        if isinstance(error, TimeoutError):
            raise DatabaseUnavailable from error
        raise


class Database(Session[Plane]):
    """A database: a session whose every statement commits by itself, and `begin` for several.

    Args:
        connect: Opens a connection.
        budget: Of the server.
        connections_max: Of this database, at once; who needs one more waits.
        wait_seconds_max: How long a request waits for its connection: for its turn and for
            connecting together.

    Attributes:
        revision: Of its schema, as whoever opened it has found it last; empty before that.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        budget: Budget,
        connections_max: int,
        *,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
    ) -> None:
        self._connect = connect
        self._wait_seconds_max = wait_seconds_max
        self._budget = budget
        self._free = connections_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connection] = []
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        self.revision = ""

    async def fetch_all(self, statement: Statement[Row], **values: object) -> list[Row]:
        """Return every row."""
        connection = self._take_idle() or await self._take()
        try:
            return await connection.run(statement, values)
        finally:
            if not self._keep(connection):
                await self._drop(connection)

    async def execute(self, statement: Statement[Any], **values: object) -> None:
        """Run a statement that returns nothing."""
        await self.fetch_all(statement, **values)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing, once for each of *rows*, all or none of them."""
        async with self.begin() as session:
            await session.execute_many(statement, rows)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Session[Plane]]:
        """Open a transaction: committed when the block ends, rolled back if it raises."""
        connection = self._take_idle() or await self._take()
        try:
            await connection.command(connection.begin_sql)
            try:
                yield connection
            except Exception:
                await self._roll_back(connection)
                raise
            try:
                await connection.command("COMMIT")
            except TransactionLost as error:
                # Nobody tries this again: what else was written just before it would be
                # written twice, such as an entry in the audit log.
                raise DatabaseUnavailable from error
        finally:
            # One that is still in a transaction (a cancelled block, a failed COMMIT) is
            # not used again; closing it rolls back.
            if not self._keep(connection):
                await self._drop(connection)

    async def close(self) -> None:
        """Close every connection: the idle ones now, the others when they are given back.

        All at once: each may wait for a server that does not answer.
        """
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            self._budget.unpark(connection)
            self._begin_to_close(self._close(connection))
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSE_SECONDS_MAX)

    def _take_idle(self) -> Connection | None:
        """Return an idle connection if there is one to have: the way of nearly every request."""
        if not self._free or not self._idle:
            return None
        if not (self._idle[-1].is_reusable and self._idle[-1].is_attached):
            return None
        self._free -= 1
        connection = self._idle.pop()
        self._budget.unpark(connection)
        return connection

    async def _take(self) -> Connection:
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                return await self._take_slowly()
        except TimeoutError as error:
            raise DatabaseUnavailable from error

    async def _take_slowly(self) -> Connection:
        if self._free:
            self._free -= 1
        else:
            await self._wait()
        try:
            while self._idle:
                connection = self._idle.pop()
                self._budget.unpark(connection)
                is_attached = connection.is_attached
                if connection.is_reusable and is_attached:
                    return connection
                if not is_attached:
                    self.revision = ""  # a backup that was put back can be older
                await self._close(connection)  # it was lost while nobody used it
            await self._budget.reserve()
            try:
                return await self._connect()
            except BaseException:
                self._budget.give_back()
                raise
        except BaseException:
            self._release()
            raise

    async def _wait(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await wait_for_turn(waiting, self._waiting, self._release)

    def _keep(self, connection: Connection) -> bool:
        """Keep *connection* for the next one, if it can be used again and nobody lacks it."""
        if self._closed or self._budget.is_short or not connection.is_reusable:
            return False
        self._idle.append(connection)
        self._budget.park(connection, self._idle)
        self._release()
        return True

    async def _drop(self, connection: Connection) -> None:
        if connection.is_silent:
            self._budget.retire_idle()
        # In a task: it goes on when the request is cancelled, or waits no longer. Until the
        # connection is closed it holds its place, so that there are never more than allowed.
        await asyncio.wait(
            {self._begin_to_close(self._close_and_release(connection))}, timeout=DROP_SECONDS_MAX
        )

    async def _close_and_release(self, connection: Connection) -> None:
        # The place goes back last: who waits for it needs the budget of this connection.
        try:
            await self._close(connection)
        finally:
            self._release()

    def _begin_to_close(self, closing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _release(self) -> None:
        if not wake_first(self._waiting):
            self._free += 1

    async def _close(self, connection: Connection) -> None:
        try:
            await connection.close()
        finally:
            self._budget.give_back()

    async def _roll_back(self, connection: Connection) -> None:
        # What made it roll back is what counts. A connection that fails here is still in its
        # transaction, or was cut; either way it is closed.
        with contextlib.suppress(Exception):
            await connection.command("ROLLBACK")
