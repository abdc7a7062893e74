"""Read the schema state of one database, and execute scripts on it, over one connection.

Everything here is synchronous and runs in one thread for each database (`Migrator`).
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.migration import live, schema_state
from tenantry.migration.autocommit import AutocommitBlock
from tenantry.migration.guard import Guard
from tenantry.migration.schema_state import Found, NoVersion, SchemaState
from tenantry.migration.statements import AutocommitRevision, LiveRevision, Statement, Step


class Execution(ABC):
    """Reads the schema state of one database, and executes scripts on it.

    It belongs to one thread; other threads may only call `stop`.

    Args:
        user_table: The version table of the user's stream; None without such a stream.

    Attributes:
        guard: Watches the revisions, and raises an error after `stop`.
    """

    def __init__(self, user_table: str | None) -> None:
        self.guard = Guard()
        self._user_table = user_table

    @property
    @abstractmethod
    def dialect(self) -> sa.Dialect:
        """The engine and its version, which scripts are compiled for."""

    @abstractmethod
    def execute(self, steps: Sequence[Step], *, wait_ms: int, rehearses: bool = False) -> None:
        """Execute *steps* in one transaction, which is rolled back on an error.

        Args:
            steps: The steps to send.
            wait_ms: How long to wait for another run on the same database.
            rehearses: Whether to roll back at the end.

        Raises:
            RevisionFailed: A revision raised an error.
            SchemaMoved: A guard did not find the expected version.
        """

    @abstractmethod
    def stop(self) -> None:
        """Interrupt the execution, from another thread: it commits nothing after this."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def read_state(self, run_id: UUID | None = None) -> SchemaState:
        """Return the revision of the database, and the revisions that a run has logged there.

        Args:
            run_id: The run; None if it has applied nothing yet, or does not matter.

        Raises:
            NoVersion, SeveralVersions: The database has no single revision.
        """
        error: Exception | None = None
        for user_table in dict.fromkeys((self._user_table, None)):
            try:
                rows = self._fetch(schema_state.find(self.dialect, user_table, run_id))
            except Exception as missing:
                if not self._is_missing_table(missing):
                    raise
                error = missing
            else:
                found = [Found(*row) for row in rows]
                return schema_state.state_in(found, has_user=self._user_table is not None)
        raise NoVersion from error

    @abstractmethod
    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def _is_missing_table(self, error: Exception) -> bool:
        """Return whether *error* says that a table does not exist."""

    @abstractmethod
    def _check_open(self, raw: Any) -> None:
        """Check after a revision that the transaction is still open."""

    def _send(self, raw: Any, steps: Iterable[Step], connection: sa.Connection | None) -> None:
        """Execute *steps* on a driver's connection, in a transaction that has begun.

        Args:
            raw: The connection of the driver.
            steps: The steps to send.
            connection: The connection of SQLAlchemy over *raw*; None if nothing runs live.
        """
        for step in steps:
            self.guard.check_stopped()
            if isinstance(step, Statement):
                with self._watching(step.revision, raw):
                    _send_statement(raw, step)
            else:
                assert connection is not None
                with self._watching(step.revision.name, raw):
                    self._run_live(step, raw, connection)

    @contextlib.contextmanager
    def _watching(self, revision: str | None, raw: Any) -> Iterator[None]:
        if revision is None:
            yield
            return
        with self.guard.watching(revision):
            yield
            self._check_open(raw)

    def _run_live(
        self, step: LiveRevision | AutocommitRevision, raw: Any, connection: sa.Connection
    ) -> None:
        block = None
        if isinstance(step, AutocommitRevision):
            block = AutocommitBlock(step, connection, raw, self.guard).enter
        live.run(step.revision, live.LiveContext(connection, step.heads, block))


def _send_statement(raw: Any, statement: Statement) -> None:
    cursor = raw.cursor()
    cursor.execute(statement.sql)
    if statement.guard is not None:
        live.take_last_result(cursor)
        found = len(cursor.fetchall()) if cursor.description else cursor.rowcount
        if found != 1:
            raise statement.guard
    cursor.close()
