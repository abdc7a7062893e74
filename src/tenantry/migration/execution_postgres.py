"""Execute scripts on PostgreSQL: over asyncpg what is recorded, over another driver the rest."""

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.db.postgres import CLOSE_SECONDS_MAX
from tenantry.migration import dialects, live, schema_state
from tenantry.migration.execution import (
    COMMIT,
    Ending,
    Execution,
    ThreadedWork,
    Transaction,
)
from tenantry.migration.guard import Guard
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.schema_state import Found, NoVersion, SchemaRevision, SchemaState
from tenantry.migration.statements import (
    SchemaMoved,
    Statement,
    Step,
    is_recorded,
    messages,
)

CANCEL_SECONDS_MAX = 2.0
# What is checked at COMMIT alone must fail in a rehearsal, too.
CHECK_DEFERRED = "SET CONSTRAINTS ALL IMMEDIATE"
_LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


class PostgresExecution(Execution):
    """Executes scripts on one PostgreSQL database.

    Args:
        url: Where it is.
        threads: Where revisions run that run live.
        user_table: The version table of the user's stream; None when there is none.
        driver: What they connect with.
        dialects: Of psycopg, for all databases.
        timeout_seconds: How long to wait for a connection.
    """

    def __init__(
        self,
        url: str,
        threads: Executor,
        *,
        user_table: str | None,
        driver: str,
        dialects: live.SharedDialects,
        timeout_seconds: float,
    ) -> None:
        self._url = url
        self._threads = threads
        self._user_table = user_table
        self._driver = driver
        self._dialects = dialects
        self._timeout_seconds = timeout_seconds
        self._raw: asyncpg.Connection[asyncpg.Record] | None = None

    async def dialect(self) -> sa.Dialect:
        """Return the engine and its version."""
        return _dialect_of(await self._connect())

    async def read_state(
        self, run_id: UUID | None = None, *, close_at: SchemaRevision | None = None
    ) -> SchemaState:
        """Return where the database is. It stays connected: closing takes a round trip."""
        del close_at
        try:
            rows = await self._find(self._user_table, run_id)
        except asyncpg.UndefinedTableError:
            try:
                rows = await self._find(None, run_id)
            except asyncpg.UndefinedTableError as error:
                raise NoVersion from error
        return schema_state.state_in(rows, has_user=self._user_table is not None)

    async def execute(
        self, steps: Sequence[Step], dialect: sa.Dialect, *, wait_ms: int, ending: Ending = COMMIT
    ) -> None:
        """Execute *steps* in one transaction."""
        del wait_ms  # it is in the steps, for the server to wait
        statements = [step for step in steps if isinstance(step, Statement)]
        if is_recorded(steps):
            await self._pipeline(statements, dialect, ending)
            return
        await self.close()  # one connection at a time
        guard = Guard(rehearses=ending.rolls_back)
        connect = partial(
            live.connect_postgres,
            self._url,
            self._driver,
            guard,
            self._dialects,
            timeout_seconds=self._timeout_seconds,
        )
        run = _LiveRun(connect, guard, dialect, ending)
        await ThreadedWork(run.stop).run(self._threads, lambda: run.execute(steps))

    async def close(self) -> None:
        """Close the connection, at the latest by cutting it."""
        raw, self._raw = self._raw, None
        if raw is None:
            return
        try:
            await raw.close(timeout=CLOSE_SECONDS_MAX)
        except BaseException as error:
            raw.terminate()
            if not isinstance(error, _LOST):
                raise

    async def _connect(self) -> "asyncpg.Connection[asyncpg.Record]":
        if self._raw is None:
            self._raw = await asyncpg.connect(
                self._url,
                timeout=self._timeout_seconds,
                server_settings={"application_name": live.APPLICATION},
            )
        return self._raw

    async def _find(self, user_table: str | None, run_id: UUID | None) -> list[Found]:
        raw = await self._connect()
        compiled = schema_state.find(user_table, has_log=run_id is not None).postgresql
        rows = await raw.fetch(compiled.sql, *compiled.arguments({"run": run_id}))
        return [Found(*row) for row in rows]

    async def _pipeline(
        self, statements: Sequence[Statement], dialect: sa.Dialect, ending: Ending
    ) -> None:
        raw = await self._connect()
        if _dialect_of(raw) is not dialect:  # another server than the one before
            raise SchemaMoved
        try:
            for statement in messages([Statement("BEGIN"), *statements]):
                await _send(raw, statement)
            if ending.rolls_back:
                await raw.execute(CHECK_DEFERRED)
                await raw.execute("ROLLBACK")
            else:
                await raw.execute("COMMIT")
        except Exception:
            # Without a connection there is nothing to roll back, and the first error counts.
            with contextlib.suppress(*_LOST):
                await raw.execute("ROLLBACK")
            raise


async def _send(raw: "asyncpg.Connection[asyncpg.Record]", statement: Statement) -> None:
    try:
        status = await raw.execute(statement.sql)
    except Exception as error:
        if statement.revision is None:
            raise
        raise RevisionFailed(statement.revision) from error
    if statement.guard and status.rpartition(" ")[2] != "1":
        raise statement.guard


def _dialect_of(raw: "asyncpg.Connection[asyncpg.Record]") -> sa.Dialect:
    version = raw.get_server_version()
    return dialects.postgresql((version.major, version.minor))


class _LiveRun:
    """One script on a connection of its own, in a thread, which `stop` can cut from another."""

    def __init__(
        self,
        connect: Callable[[], sa.Connection],
        guard: Guard,
        dialect: sa.Dialect,
        ending: Ending,
    ) -> None:
        self._connect = connect
        self._guard = guard
        self._dialect = dialect
        self._ending = ending
        self._raw: Any = None

    def execute(self, steps: Sequence[Step]) -> None:
        """Connect, execute *steps*, end the transaction, and close the connection."""
        with self._connect() as connection:
            raw: Any = connection.connection.driver_connection
            self._raw = raw
            version = connection.dialect.server_version_info
            assert self._dialect.server_version_info is not None
            if version is None or version[:1] != self._dialect.server_version_info[:1]:
                raise SchemaMoved
            connection.begin()
            try:
                joined = messages(steps) if live.takes_several(raw) else steps
                Transaction(raw, self._guard, connection).execute(joined)
                if self._ending.rolls_back:
                    raw.cursor().execute(CHECK_DEFERRED)
                self._guard.check_stopped()
                raw.rollback() if self._ending.rolls_back else raw.commit()
            finally:
                with contextlib.suppress(Exception):  # the first error counts
                    raw.rollback()

    def stop(self) -> None:
        """Cancel what the server does, and cut the connection."""
        self._guard.is_stopped = True
        raw = self._raw
        if raw is None:
            return
        with contextlib.suppress(Exception):
            live.cancel(raw)
        # The thread may compute, and never come back: the server must not wait for it.
        with (
            contextlib.suppress(Exception),
            socket.socket(fileno=os.dup(raw.fileno())) as cut,
        ):
            cut.shutdown(socket.SHUT_RDWR)
