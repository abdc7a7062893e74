"""Execute scripts on PostgreSQL: over psycopg, and live revisions over the operator's driver."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy as sa

from tenantry.db.outage_errors import ConnectTimeout
from tenantry.db.postgres import session_settings
from tenantry.db.postgres.connector import PostgresConnector, closing
from tenantry.kit.errors import Unavailable
from tenantry.kit.stopping import shut_down
from tenantry.migration import dialects, live
from tenantry.migration.execution import Execution
from tenantry.migration.statements import AutocommitRevision, Statement, Step, is_recorded

# Constraints that are only checked at COMMIT must fail in a rehearsal, too.
_CHECK_DEFERRED = Statement("SET CONSTRAINTS ALL IMMEDIATE")
_BEGIN = Statement("BEGIN")
_BEGIN_LISTING = (
    "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp; "
    f"{session_settings.setting(session_settings.ALWAYS, is_local=True)}"
)
_READ_PID = "SELECT pg_backend_pid()"
# What decides which tables a name means, and who may use them.
_READ_SESSION = "SELECT current_setting('search_path'), current_setting('role')"
_RESTORE_SESSION = "SELECT set_config('search_path', %s, false), set_config('role', %s, false)"


class PooledConnection(Unavailable):
    """An autocommit_block cannot run through a connection pooler: set admin_url of the server."""


class PostgresExecution(Execution):
    """Executes scripts on one PostgreSQL database.

    Args:
        driver: The driver for live revisions.
        dialects: The dialects for psycopg, shared by all databases.
        timeout_seconds: How long to wait for a connection.
    """

    def __init__(
        self,
        url: str,
        *,
        user_table: str | None,
        attached_at: str | None = None,
        driver: str,
        dialects: live.SharedDialects,
        timeout_seconds: float,
    ) -> None:
        super().__init__(user_table, attached_at=attached_at)
        self._url = url
        self._driver = driver
        self._dialects = dialects
        self._timeout_seconds = timeout_seconds
        self._dialect: sa.Dialect | None = None
        self._connection: sa.Connection | None = None  # SQLAlchemy's, over the driver's
        self._is_direct: bool | None = None
        self._has_committed = False

    @property
    def dialect(self) -> sa.Dialect:
        """The engine and its version."""
        if self._dialect is None:
            number: int = self._connect().info.server_version
            version = (number // 10_000, number % 10_000)
            self._dialect = dialects.postgresql(version, self._driver)
        return self._dialect

    def execute(
        self,
        steps: Sequence[Step],
        *,
        wait_ms: int,
        rehearses: bool = False,
        has_next: bool = False,
    ) -> None:
        """Execute *steps* in one transaction."""
        del wait_ms  # the steps contain it: the server waits
        self.guard.rehearses = rehearses
        if self._connection is None:
            self._context = None  # of an earlier connection
        if rehearses:
            steps = [*steps, _CHECK_DEFERRED]
        # A connection of psycopg becomes SQLAlchemy's later; one of another driver does not.
        is_alone = not has_next or self._driver == live.DRIVER_DEFAULT
        if is_recorded(steps) and is_alone and self._connection is None:
            self._transact(self._connect(), [_BEGIN, *steps], None)
        else:
            self._execute_live(steps)
        self._has_committed = True

    def _execute_live(self, steps: Sequence[Step]) -> None:
        """Execute *steps* on the connection of SQLAlchemy, which later scripts use, too.

        With Alembic all revisions have one session, so a later revision can depend on its
        settings and temporary tables.
        """
        is_autocommit = any(isinstance(step, AutocommitRevision) for step in steps)
        if is_autocommit and not self._read_is_direct():
            raise PooledConnection
        if self._connection is None:
            self._connection = self._connect_live()
            self._raw = self._connection.connection.driver_connection
        connection = self._connection
        self._raw.autocommit = False  # an attempt that failed in a block can have left it on
        before = self._fetch(_READ_SESSION)[0] if is_autocommit else None
        try:
            connection.begin()
            self._transact(self._raw, steps, connection)
        except BaseException:
            with contextlib.suppress(Exception):  # keep the first error
                self._restore(before)
            raise
        finally:
            with contextlib.suppress(Exception):  # the transaction of SQLAlchemy, which is empty
                connection.rollback()

    def _restore(self, session: Sequence[str] | None) -> None:
        """Prepare the next attempt: it must find the tables that this one has found.

        Args:
            session: The settings before the attempt, if it could change them without a transaction.
        """
        if not self._has_committed:
            self.close()
        elif session is not None:
            cursor = self._raw.cursor()
            cursor.execute(_RESTORE_SESSION, session)
            self._raw.commit()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            super().close()
            return
        self._raw = None
        connection.close()

    def stop(self) -> None:
        """Cancel the running statement, and abort the connection."""
        self.guard.stop.set()
        raw = self._raw  # None if there is no connection: then both attempts fail
        with contextlib.suppress(Exception):
            live.cancel(raw)
        # The thread may be computing and never return: the server must not wait for it.
        with contextlib.suppress(Exception):
            shut_down(raw.fileno())

    def _connect(self) -> Any:
        if self._raw is None:
            try:
                self._raw = live.connect_psycopg(
                    self._url, self.guard, timeout_seconds=self._timeout_seconds
                )
            except psycopg.errors.ConnectionTimeout as error:
                raise ConnectTimeout from error
            except psycopg.OperationalError as error:
                raise _refusal(self._url, self._timeout_seconds) or error from error
        return self._raw

    def _connect_live(self) -> sa.Connection:
        if self._driver == live.DRIVER_DEFAULT:
            return self._dialects.connect(self._connect(), self._url, self.guard)
        self._read_is_direct()
        self.close()  # one connection at a time
        return live.connect_other(
            self._url, self._driver, self.guard, timeout_seconds=self._timeout_seconds
        )

    def _read_is_direct(self) -> bool:
        """Return whether there is no pooler: a block needs settings and locks of a session.

        A pooler invents the process id that it sends to a client.
        """
        if self._is_direct is None:
            pid = self._connect().info.backend_pid
            self._is_direct = [tuple(row) for row in self._fetch(_READ_PID)] == [(pid,)]
        return self._is_direct

    def _fetch(self, query: str) -> Any:
        """Return the rows of Tenantry's own query, outside a transaction."""
        if self._connection is None:
            return super()._fetch(query)
        cursor = self._raw.cursor()
        try:
            cursor.execute(query)
            return cursor.fetchall()
        finally:
            self._raw.rollback()

    def _list_objects(self, listing: str) -> Any:
        """Return the rows of a query of the system catalogs.

        A function in the database must not take the place of one that it calls, because it would
        run with the rights of Tenantry's role.
        """
        raw = self._connect()
        raw.execute(_BEGIN_LISTING)
        try:
            return raw.execute(listing).fetchall()
        finally:
            raw.rollback()

    def _check_open(self, raw: Any) -> None:
        """Do nothing: the guard of the next log entry detects another transaction."""


def _refusal(url: str, timeout_seconds: float) -> Exception | None:
    """Return the server's error on connecting, with its SQLSTATE, which libpq does not provide."""

    async def connect() -> None:
        async with closing(PostgresConnector(url, timeout_seconds=timeout_seconds).connect()):
            pass

    try:
        asyncio.run(connect())
    except TimeoutError:
        return ConnectTimeout()
    except Exception as error:  # noqa: BLE001 - it is returned
        return error
    return None
