"""A database: connections that are opened on demand, within the budget of their server.

A pool for each tenant in each process would need more connections than any server has. So all
databases of one server share one budget. At the limit, the connection that has been idle
longest is closed, whichever database it belongs to. The server can have a lower limit, for the
role, for a database, or because others use it: then the same is done, and connecting is retried.
"""

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any

from tenantry.db.sessions import (
    Connection,
    DatabaseReplaced,
    DatabaseUnavailable,
    Kind,
    ServerFull,
    Session,
    TransactionLost,
)
from tenantry.db.statements import Row, Statement
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.turns import NoTurn, Turns

WAIT_SECONDS_MAX = 5.0
# When the process ends.
CLOSE_SECONDS_MAX = 2.0
# How long a request waits for its connection to close; the close continues in a task.
DROP_SECONDS_MAX = 0.25
# The pause before connecting to a full server is retried, at most: other processes use it, too.
FULL_PAUSE_SECONDS_MAX = 1.0


class Budget(Turns):
    """The places of all connections from this process to one server, over all its databases.

    Attributes:
        connections_max: How many there can be.
        idle: The unused connections, which may be closed, with the pool that holds each and since
            when; the longest idle first. `Database` adds and removes its own.
    """

    def __init__(self, connections_max: int) -> None:
        super().__init__(connections_max)
        self.connections_max = connections_max
        self.idle: dict[Connection, tuple[list[Connection], float]] = {}

    @property
    def open_count(self) -> int:
        """The number of connections that are open or being opened."""
        return self.connections_max - self.free

    @property
    def idle_count(self) -> int:
        """The number of connections that are open and unused."""
        return len(self.idle)

    async def take(self, key: Hashable = None, *, seconds: float | None = None) -> None:
        """Take the place of a connection that is to be opened; close an idle one if necessary.

        Raises:
            NoTurn: Every connection was in use for *seconds*.
        """
        if self.free or not self.idle:
            await super().take(key, seconds=seconds)
            return
        connection = self._take_longest_idle()
        try:
            await connection.close()
        except BaseException:
            self.give_back()
            raise

    async def close_idle(self, *, seconds: float = 0.0) -> None:
        """Close the connections that have been idle for *seconds*, for others to connect."""
        before = monotonic_seconds() - seconds
        taken = []
        while self.idle and next(iter(self.idle.values()))[1] <= before:
            taken.append(self._take_longest_idle())
        try:
            closing = (connection.close() for connection in taken)
            await asyncio.gather(*closing, return_exceptions=True)
        finally:
            for _ in taken:
                self.give_back()

    async def make_room(self) -> None:
        """Close the longest idle connection, because the server is full.

        If there is none, wait until one in use is returned and closed, or for a pause: another
        process may have closed one.
        """
        if self.idle:
            connection = self._take_longest_idle()
            try:
                await connection.close()
            finally:
                self.give_back()
            return
        # While a task waits, a returned connection is closed, and not kept.
        with contextlib.suppress(NoTurn):
            await self.wait(seconds=backoff_seconds(FULL_PAUSE_SECONDS_MAX))
            self.give_back()

    def _take_longest_idle(self) -> Connection:
        connection, (pool, _) = next(iter(self.idle.items()))
        del self.idle[connection]
        pool.remove(connection)
        return connection

    def retire_idle(self) -> None:
        """Make every idle connection unusable: the server has stopped answering."""
        for connection in self.idle:
            connection.retire()


class Database(Session[Kind]):
    """A database: a session in which each statement commits by itself, unless in `begin`.

    Args:
        connect: Opens a connection.
        budget: The budget of the server.
        connections_max: Open at the same time to this database; at the limit, a request waits.
        wait_seconds_max: How long a request waits for its connection: for its turn and for
            connecting together.

    Attributes:
        revision: The revision of its schema when it was last read; empty before that.
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
        self._places = Turns(connections_max)
        self._idle: list[Connection] = []
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        self.revision = ""

    async def fetch(self, statement: Statement[Row], values: Mapping[str, object]) -> list[Row]:
        """Return every row."""
        is_retry = False
        while True:
            connection = self._take_idle() or await self._take()
            try:
                return await connection.fetch(statement, values)
            except DatabaseReplaced:
                self._detach()
                if is_retry:
                    raise
                is_retry = True
            finally:
                if not self._keep(connection):
                    await self._drop(connection)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing once for each of *rows*: all of them, or none."""
        async with self.begin() as session:
            await session.execute_many(statement, rows)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Session[Kind]]:
        """Open a transaction: committed when the block ends, rolled back if it raises."""
        connection = await self._take_begun()
        try:
            try:
                yield connection
            except Exception:
                await self._roll_back(connection)
                raise
            try:
                await connection.command("COMMIT")
            except TransactionLost as error:
                # Do not retry: a write to another database just before the COMMIT, such as an
                # entry in the audit log, would be made twice.
                raise DatabaseUnavailable from error
        finally:
            # A connection that is still in a transaction (a cancelled block, a failed COMMIT)
            # is not used again; closing it rolls back.
            if not self._keep(connection):
                await self._drop(connection)

    async def close(self) -> None:
        """Close every connection: idle ones now, the others when they are returned.

        They are closed concurrently, because each may wait for a server that does not answer.
        """
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            del self._budget.idle[connection]
            self._begin_to_close(self._close(connection))
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSE_SECONDS_MAX)

    async def _take_begun(self) -> Connection:
        """Take a connection, and begin a transaction on it."""
        try:
            return await self._begin()
        except DatabaseReplaced:
            self._detach()
            return await self._begin()

    async def _begin(self) -> Connection:
        connection = self._take_idle() or await self._take()
        try:
            await connection.command(connection.begin_sql)
        except BaseException:
            if not self._keep(connection):
                await self._drop(connection)
            raise
        return connection

    def _detach(self) -> None:
        """Stop using every connection: each has a database open that was replaced."""
        self.revision = ""  # a restored backup can be older
        for connection in self._idle:
            connection.retire()

    def _take_idle(self) -> Connection | None:
        """Return an idle connection if one is usable: the fast path of nearly every request."""
        if not self._places.free or not self._idle:
            return None
        if not self._idle[-1].is_reusable:
            return None
        self._places.free -= 1
        connection = self._idle.pop()
        del self._budget.idle[connection]
        return connection

    async def _take(self) -> Connection:
        full: ServerFull | None = None
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                while True:
                    try:
                        return await self._take_slowly()
                    except ServerFull as error:
                        full = error
                    await self._budget.make_room()
        except TimeoutError as error:
            if full is not None:
                raise full from full.__cause__
            raise DatabaseUnavailable from error

    async def _take_slowly(self) -> Connection:
        await self._places.take()
        try:
            while self._idle:
                connection = self._idle.pop()
                del self._budget.idle[connection]
                if connection.is_reusable:
                    return connection
                await self._close(connection)  # it was lost while it was idle
            await self._budget.take()
            try:
                return await self._connect()
            except BaseException:
                self._budget.give_back()
                raise
        except BaseException:
            self._places.give_back()
            raise

    def _keep(self, connection: Connection) -> bool:
        """Keep *connection* idle if it is reusable and no task waits for the budget."""
        if self._closed or self._budget.waiting or not connection.is_reusable:
            return False
        self._idle.append(connection)
        self._budget.idle[connection] = self._idle, monotonic_seconds()
        if self._places.waiting:
            self._places.give_back()
        else:
            self._places.free += 1
        return True

    async def _drop(self, connection: Connection) -> None:
        if connection.is_silent:
            self._budget.retire_idle()
        # In a task, so that closing continues when the request is cancelled or stops waiting.
        # The connection keeps its place until it is closed, so the limit is never exceeded.
        await asyncio.wait(
            {self._begin_to_close(self._close_and_release(connection))}, timeout=DROP_SECONDS_MAX
        )

    async def _close_and_release(self, connection: Connection) -> None:
        # The place is released last: the next task also needs the budget of this connection.
        try:
            await self._close(connection)
        finally:
            self._places.give_back()

    def _begin_to_close(self, closing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _close(self, connection: Connection) -> None:
        try:
            await connection.close()
        finally:
            self._budget.give_back()

    async def _roll_back(self, connection: Connection) -> None:
        # The error that caused the rollback is the one to raise. A connection that fails here
        # is still in its transaction, or was aborted; either way it is closed.
        with contextlib.suppress(Exception):
            await connection.command("ROLLBACK")
