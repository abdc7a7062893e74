"""Connections for requests on PostgreSQL, over asyncpg."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg
import structlog
from asyncpg.prepared_stmt import PreparedStatement

from tenantry.db.postgres.connector import CLOSE_SECONDS_MAX, PostgresConnector, Raw, SettingMissing
from tenantry.db.sessions import (
    ROW_SECONDS,
    Connection,
    DatabaseUnavailable,
    RejectedByDatabase,
    ServerFull,
    StatementDeadline,
    StorageFull,
    TransactionLost,
    WritesRejected,
)
from tenantry.db.statements import Conflicts, Row, Statement
from tenantry.kit.errors import Conflict
from tenantry.kit.ids import new_id
from tenantry.kit.tracing import active

# The server ends a statement at its deadline. If no response has arrived this much later, the
# server or the network is down, and the connection is aborted.
SILENCE_SECONDS = 1.0

Answer = TypeVar("Answer")

# A lost connection, a server that is full or shutting down, or a database without the expected
# tables. A timeout is an OSError; asyncpg itself raises InterfaceError and InternalClientError.
UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.LockNotAvailableError,
    asyncpg.TransactionRollbackError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    # A pooler in transaction mode that does not keep prepared statements.
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
    OSError,
)

_log = structlog.get_logger(__name__)


class PostgresConnection(Connection):
    """One connection to a PostgreSQL database.

    Args:
        raw: The driver's connection.
        statement_seconds: How long a statement may take.
        is_pooled: Whether a pooler rejected the setting `statement_timeout`. Then the client
            cancels a statement at its deadline.
    """

    def __init__(self, raw: Raw, statement_seconds: float, *, is_pooled: bool = False) -> None:
        self._raw = raw
        # asyncpg's own timeout asks the server to cancel, and a silent server does not do so.
        self._deadline = StatementDeadline(statement_seconds + SILENCE_SECONDS, self._abort)
        self._seconds_pooled = statement_seconds if is_pooled else None
        if is_pooled:
            # In the message that begins the transaction: a pooler may give the next one to
            # another session of the server.
            self.begin_sql = f"BEGIN; SET LOCAL statement_timeout = {_ms(statement_seconds)}"
        self._prepared: dict[str, PreparedStatement[Any]] = {}
        self._is_spent = False
        self._is_stale = False

    def fetch(
        self, statement: Statement[Row], values: Mapping[str, object]
    ) -> Coroutine[Any, Any, list[Row]]:
        """Return every row."""
        sent = self._fetch(statement, values)
        return self._within_deadline(statement.postgresql.sql, sent, statement.conflicts)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing, once for each of *rows*."""
        if rows:
            compiled = statement.postgresql
            arguments = list(map(compiled.arguments, rows))
            executing = self._raw.executemany(compiled.sql, arguments)
            seconds_more = len(rows) * ROW_SECONDS
            await self._within_deadline(compiled.sql, executing, statement.conflicts, seconds_more)

    async def command(self, sql: str) -> None:
        """Run *sql* unchanged, without parameters."""
        await self._within_deadline(sql, self._raw.execute(sql), {})

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was not aborted."""
        raw = self._raw
        return not (self._is_spent or raw.is_closed() or raw.is_in_transaction())

    def retire(self) -> None:
        """Abort the connection."""
        self._is_spent = True
        self._deadline.close()
        self._raw.terminate()

    async def close(self) -> None:
        """Close the connection; abort it if that takes longer than `CLOSE_SECONDS_MAX`."""
        self._deadline.close()
        try:
            await self._raw.close(timeout=CLOSE_SECONDS_MAX)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._raw.terminate()
        except asyncio.CancelledError:
            self._raw.terminate()
            raise

    async def _within_deadline(
        self, sql: str, sent: Awaitable[Answer], conflicts: Conflicts, seconds_more: float = 0
    ) -> Answer:
        self._deadline.begin(seconds_more)
        if active.tracer is not None:
            sent = active.tracer.statement("postgresql", sql, sent)
        try:
            if self._seconds_pooled is None:
                return await sent
            return await self._within_client_timeout(sent, self._seconds_pooled + seconds_more)
        except asyncio.CancelledError:
            self._is_spent = True
            raise
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
            raise TransactionLost from error
        except asyncpg.ReadOnlySQLTransactionError as error:
            # A write fence; or a standby, and the next connection reaches the new primary.
            self._is_spent = True
            raise WritesRejected from error
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError) as error:
            raise _conflict(conflicts, error) from error
        except asyncpg.DiskFullError as error:
            raise StorageFull from error
        except UNAVAILABLE as error:
            raise DatabaseUnavailable from error
        finally:
            self._deadline.due = None

    async def _within_client_timeout(self, sent: Awaitable[Answer], seconds: float) -> Answer:
        """Return the result of *sent*; after *seconds*, ask the server to cancel it."""
        try:
            async with asyncio.timeout(seconds):
                return await sent
        except TimeoutError:
            # The driver has asked the server to cancel, and waits for the response on closing.
            self._is_spent = True
            self._deadline.close()
            try:
                await self._raw.close(timeout=SILENCE_SECONDS)
            except TimeoutError:
                self._abort()
            raise

    def _abort(self) -> None:
        """Abort the connection: the statement that waits for a response fails immediately."""
        self.is_silent = True
        self.retire()

    async def _fetch(self, statement: Statement[Row], values: Mapping[str, object]) -> list[Row]:
        compiled = statement.postgresql
        sql, arguments = compiled.sql, compiled.arguments(values)
        prepared = self._prepared.get(sql) or await self._prepare(sql)
        try:
            records = await prepared.fetch(*arguments)
        except asyncpg.InvalidCachedStatementError:
            # A migration has changed the table since this connection prepared its statements.
            # In a transaction, the whole transaction must be retried.
            self._prepared.clear()
            self._is_stale = True
            if self._raw.is_in_transaction():
                raise TransactionLost from None
            prepared = await self._prepare(sql)
            records = await prepared.fetch(*arguments)
        return compiled.rows(statement.row, records)

    async def _prepare(self, sql: str) -> "PreparedStatement[Any]":
        # asyncpg has its own cache, but it is slower. The number of entries is bounded by the
        # number of statements in the code.
        text = sql
        if self._is_stale:
            # A pooler shares the statements of equal text, so the text must be a new one.
            text = f"{sql} /* {new_id()} */"
        prepared = self._prepared[sql] = await self._raw.prepare(text)
        return prepared


async def connect(
    connector: PostgresConnector, *, statement_seconds: float, database: str | None = None
) -> PostgresConnection:
    """Open a connection for requests to *database*, or to that of the connector's URL.

    Raises:
        ServerFull: The server has no connection left.
        DatabaseUnavailable: The server or the database does not exist, or does not answer.
    """
    session = {"statement_timeout": str(_ms(statement_seconds))}
    try:
        raw = await connector.connect(session=session, database=database)
    except asyncpg.TooManyConnectionsError as error:
        raise ServerFull from error
    except (asyncpg.PostgresError, SettingMissing, *UNAVAILABLE) as error:
        raise DatabaseUnavailable from error
    return PostgresConnection(raw, statement_seconds, is_pooled=connector.is_pooled)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _conflict(conflicts: Conflicts, error: asyncpg.PostgresError) -> Conflict:
    if isinstance(error, asyncpg.UniqueViolationError):
        conflict = conflicts.get(error.constraint_name or "")
        if conflict is not None:
            return conflict()
    # Without its message, which can contain values of the row.
    _log.warning(
        "change rejected by the database",
        kind=type(error).__name__,
        table=error.table_name,
        constraint=error.constraint_name,
    )
    return RejectedByDatabase()
