"""Execute scripts on one database: what both engines have in common.

A script that is recorded goes to PostgreSQL over asyncpg, several statements in a message
(`execution_postgres`). One with a live revision, and every script on SQLite, runs on one
ordinary connection of a driver, in a thread (`Transaction`).
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.migration import live
from tenantry.migration.autocommit import AutocommitBlock
from tenantry.migration.guard import Guard
from tenantry.migration.schema_state import SchemaRevision, SchemaState
from tenantry.migration.statements import AutocommitRevision, LiveRevision, Statement, Step

# How long a thread that was stopped may take to end before its task goes on without it.
STOP_SECONDS_MAX = 5.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the transaction of a script ends.

    Attributes:
        rolls_back: It is a rehearsal.
        closes: Nothing is left to do afterwards, so the connection may be closed.
    """

    rolls_back: bool = False
    closes: bool = False


COMMIT = Ending()
COMMIT_AND_CLOSE = Ending(closes=True)
ROLL_BACK = Ending(rolls_back=True)


class Execution(ABC):
    """Reads the schema state of one database, and executes scripts there."""

    @abstractmethod
    async def dialect(self) -> sa.Dialect:
        """Return the engine and its version, for which scripts are made."""

    @abstractmethod
    async def read_state(
        self, run_id: UUID | None = None, *, close_at: SchemaRevision | None = None
    ) -> SchemaState:
        """Return where the database is, and what a run has applied, by its own log.

        Args:
            run_id: The run; None when it has applied nothing yet, or does not matter.
            close_at: Where nothing is left to do, so that the connection may be closed.

        Raises:
            NoVersion, SeveralVersions: No one revision is written there.
        """

    @abstractmethod
    async def execute(
        self, steps: Sequence[Step], dialect: sa.Dialect, *, wait_ms: int, ending: Ending = COMMIT
    ) -> None:
        """Execute *steps* in one transaction. After an error, nothing is left of it.

        Args:
            steps: What to send.
            dialect: For which they were made.
            wait_ms: How long to wait for another run on the same database.
            ending: How the transaction ends.

        Raises:
            RevisionFailed: A revision raised something.
            SchemaMoved: A guard found something else than it expected.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, at the latest by cutting it."""


class Transaction:
    """A transaction on an ordinary connection of a driver. It belongs to one thread.

    Args:
        raw: The driver's connection.
        guard: Watches the revisions.
        connection: SQLAlchemy's, over *raw*; None when nothing runs live.
        check_open: Raises when the transaction is no longer open, after a revision.
    """

    def __init__(
        self,
        raw: Any,
        guard: Guard,
        connection: sa.Connection | None,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        self._raw = raw
        self._guard = guard
        self._connection = connection
        self._check_open = check_open

    def execute(self, steps: Iterable[Step]) -> None:
        """Execute *steps*, in a transaction that has begun.

        Raises:
            RevisionFailed: A revision raised something.
            SchemaMoved: A guard found something else than it expected.
        """
        for step in steps:
            self._guard.check_stopped()
            if isinstance(step, Statement):
                with self._guarding(step.revision):
                    self._send(step)
            else:
                self._run(step)

    def _send(self, statement: Statement) -> None:
        cursor = self._raw.cursor()
        cursor.execute(statement.sql)
        if statement.guard is not None:
            live.take_last_result(cursor)
            found = len(cursor.fetchall()) if cursor.description else cursor.rowcount
            if found != 1:
                raise statement.guard
        cursor.close()

    @contextlib.contextmanager
    def _guarding(self, revision: str | None) -> Iterator[None]:
        if revision is None:
            yield
            return
        with self._guard.watching(revision):
            yield
            self._check_open()

    def _run(self, step: LiveRevision | AutocommitRevision) -> None:
        assert self._connection is not None
        block = None
        if isinstance(step, AutocommitRevision):
            block = AutocommitBlock(step, self._connection, self._raw, self._guard).enter
        context = live.LiveContext(self._connection, step.heads, block)
        with self._guarding(step.revision.name):
            live.run(step.revision, context)


class ThreadedWork:
    """Synchronous work of one database, which ends with the task that waits for it.

    Args:
        stop: Interrupts the work from outside; called in a thread of its own.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self.running: asyncio.Future[Any] | None = None

    async def run(self, executor: Any, work: Callable[[], Result]) -> Result:
        """Run *work* in a thread of *executor*, and return what it returns.

        A thread cannot be cancelled. Its statement can, and its guard refuses the next one and
        the commit, so that nothing is committed after it was called a failure.
        """
        loop = asyncio.get_running_loop()
        running = self.running = loop.run_in_executor(executor, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_read_error)
            stopping = loop.run_in_executor(None, self._stop)
            stopping.add_done_callback(_read_error)
            await asyncio.wait([running], timeout=STOP_SECONDS_MAX)
            raise


def _read_error(done: "asyncio.Future[Any]") -> None:
    """Read the error of work that was given up, so that asyncio does not log it as lost."""
    if not done.cancelled():
        done.exception()
