"""Execute scripts on PostgreSQL: over psycopg, and live revisions over the operator's driver."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy as sa

from tenantry.db import postgres_connector
from tenantry.db.outages import ConnectTimeout
from tenantry.db.postgres import CLOSE_SECONDS_MAX
from tenantry.kit.errors import Unavailable
from tenantry.migration import dialects, live
from tenantry.migration.execution import Execution
from tenantry.migration.statements import AutocommitRevision, Statement, Step, is_recorded

# Constraints that are only checked at COMMIT must fail in a rehearsal, too.
_CHECK_DEFERRED = Statement("SET CONSTRAINTS ALL IMMEDIATE")
_BEGIN = Statement("BEGIN")


class PooledConnection(Unavailable):
    """An autocommit_block cannot run through a connection pooler: set admin_url of the server."""


class PostgresExecution(Execution):
    """Executes scripts on one PostgreSQL database.

    Args:
        url: The URL of the database.
        user_table: The version table of the user's stream; None without such a stream.
        driver: The driver for live revisions.
        dialects: The dialects for psycopg, shared by all databases.
        timeout_seconds: How long to wait for a connection.
    """

    def __init__(
        self,
        url: str,
        *,
        user_table: str | None,
        driver: str,
        dialects: live.SharedDialects,
        timeout_seconds: float,
    ) -> None:
        super().__init__(user_table)
        self._url = url
        self._driver = driver
        self._dialects = dialects
        self._timeout_seconds = timeout_seconds

    @property
    def dialect(self) -> sa.Dialect:
        """The engine and its version."""
        number: int = self._connect().info.server_version
        return dialects.postgresql((number // 10_000, number % 10_000))

    def execute(self, steps: Sequence[Step], *, wait_ms: int, rehearses: bool = False) -> None:
        """Execute *steps* in one transaction."""
        del wait_ms  # the steps contain it: the server waits
        self.guard.rehearses = rehearses
        if rehearses:
            steps = [*steps, _CHECK_DEFERRED]
        if is_recorded(steps):
            self._transact(self._connect(), [_BEGIN, *steps], None)
            return
        if any(isinstance(step, AutocommitRevision) for step in steps):
            self._check_direct()
        with self._connect_live() as connection:
            self._raw = connection.connection.driver_connection
            try:
                connection.begin()
                self._transact(self._raw, steps, connection)
            finally:
                self._raw = None

    def stop(self) -> None:
        """Cancel the running statement, and abort the connection."""
        self.guard.stopped.set()
        raw = self._raw  # None if there is no connection: then both attempts fail
        with contextlib.suppress(Exception):
            live.cancel(raw)
        # The thread may be computing and never return: the server must not wait for it.
        with (
            contextlib.suppress(Exception),
            socket.socket(fileno=os.dup(raw.fileno())) as cut,
        ):
            cut.shutdown(socket.SHUT_RDWR)

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
        self.close()  # one connection at a time
        return live.connect_other(
            self._url, self._driver, self.guard, timeout_seconds=self._timeout_seconds
        )

    def _check_direct(self) -> None:
        """Check that there is no pooler: the revision needs settings and locks of a session.

        Raises:
            PooledConnection: There is one. It invents the process id that it sends to a client.
        """
        raw = self._connect()
        if raw.execute("SELECT pg_backend_pid()").fetchone() != (raw.info.backend_pid,):
            raise PooledConnection

    def _check_open(self, raw: Any) -> None:
        """Do nothing: the guard of the next log entry detects another transaction."""


def _refusal(url: str, timeout_seconds: float) -> Exception | None:
    """Return the server's error on connecting, with its SQLSTATE, which libpq does not provide."""

    async def connect() -> None:
        raw = await postgres_connector.connect(url, timeout_seconds=timeout_seconds)
        await raw.close(timeout=CLOSE_SECONDS_MAX)

    try:
        asyncio.run(connect())
    except TimeoutError:
        return ConnectTimeout()
    except Exception as error:  # noqa: BLE001 - it is returned
        return error
    return None
