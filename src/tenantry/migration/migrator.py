"""Migrate one database: bring it to the head of its streams, within a deadline.

The work itself is synchronous (`Attempts`, `Execution`) and runs in one thread from the
connection to the COMMIT. Here are its deadline, and what is done when it ends early.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration import live
from tenantry.migration.attempts import Attempts
from tenantry.migration.execution import Execution
from tenantry.migration.execution_postgres import PostgresExecution
from tenantry.migration.execution_sqlite import SqliteExecution
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import BASE, Applied, SchemaRevision
from tenantry.migration.scripts import BOOTSTRAP_WAIT_MS, bootstrap
from tenantry.migration.stamp import write_stamp
from tenantry.migration.statements import LockTimeouts
from tenantry.migration.streams import Streams

SPARE_SECONDS_MAX = 3.0
SPARE_PART_MAX = 0.2
# How long a thread that was stopped may take to end before its task goes on without it.
STOP_SECONDS_MAX = 5.0

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """How long the migration of one database may take, and wait.

    Attributes:
        connect_seconds: For a connection.
        deadline_seconds: For everything.
        lock_ms: At one lock, with the tenant's traffic behind.
    """

    connect_seconds: float
    deadline_seconds: float
    lock_ms: int

    @property
    def work_seconds(self) -> float:
        """How long the work may take, so that there is time to read what it left."""
        spare = min(SPARE_SECONDS_MAX, self.deadline_seconds * SPARE_PART_MAX)
        return self.deadline_seconds - spare

    @property
    def lock_timeouts(self) -> LockTimeouts:
        """How long a script waits for locks."""
        return LockTimeouts(swap_ms=max(1, int(self.work_seconds * 1000)), lock_ms=self.lock_ms)


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """What a run did to one database.

    Attributes:
        applied: What the run has applied there, by the database's own log: after a crash it
            may be more than this attempt did, and after a failure it is what stayed.
        revision: Where it now is.
        error: Why it is not at the head; None when it is.
    """

    applied: list[Applied]
    revision: SchemaRevision
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a run would find in one database, and would do there.

    Attributes:
        revision: Where it is.
        pending: What would be applied, in order; nothing when that is unknown.
        error: Why it is unknown; or why it failed when it was rehearsed.
    """

    revision: SchemaRevision
    pending: list[Applied]
    error: Exception | None = None


class Migrator:
    """Migrates databases.

    Args:
        threads: Where each database is worked on; not closed here.
        limits: For each database.
        driver: What live revisions connect to PostgreSQL with.
    """

    def __init__(
        self, threads: Executor, limits: TimeLimits, *, driver: str = live.DRIVER_DEFAULT
    ) -> None:
        self._threads = threads
        self._limits = limits
        self._driver = driver
        self._dialects = live.SharedDialects()

    async def migrate(
        self, url: str, scripts: RunScripts, *, run_id: UUID, is_first: bool = False
    ) -> MigrationResult:
        """Bring the database at *url* to the head, and return what was done.

        It ends at the deadline, even if the server has gone silent.

        Args:
            url: Where the database is.
            scripts: Of the run.
            run_id: The run.
            is_first: This run has not begun with this database yet.

        Raises:
            Exception: Whatever the drivers raise, when the database cannot be read either.
        """
        attempts = Attempts(scripts, run_id, self._limits.lock_timeouts)

        def migrate(execution: Execution) -> MigrationResult:
            try:
                state = attempts.to_head(execution, is_first=is_first)
            except Exception as error:  # noqa: BLE001 - a revision can raise anything
                return _result_after(execution, run_id, error)
            return MigrationResult(state.applied, state.revision, None)

        async with asyncio.timeout(self._limits.deadline_seconds):
            try:
                async with asyncio.timeout(self._limits.work_seconds):
                    return await self._run(url, scripts.streams, migrate)
            except Exception as failed:
                if not attempts.has_sent:
                    raise
                # The connection is lost, or was silent, and something may have stayed.
                error = failed
            return await self._run(
                url, scripts.streams, lambda execution: _result_after(execution, run_id, error)
            )

    async def read_result(self, url: str, scripts: RunScripts, *, run_id: UUID) -> MigrationResult:
        """Return what a run has done to the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            state = await self._run(
                url, scripts.streams, lambda execution: execution.read_state(run_id)
            )
        return MigrationResult(state.applied, state.revision, None)

    async def read_revision(self, url: str, streams: Streams) -> SchemaRevision:
        """Return where the database at *url* is.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            return (await self._run(url, streams, Execution.read_state)).revision

    async def inspect(self, url: str, scripts: RunScripts) -> Inspection:
        """Return what is pending in the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when not even its revision can be read.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            return await self._run(
                url, scripts.streams, lambda execution: _inspect(execution, scripts)
            )

    async def rehearse(self, url: str, scripts: RunScripts) -> Inspection:
        """Do what `migrate` does to the database at *url*, and roll it back.

        It takes the same locks, in the same order, for as long. What no rollback undoes is
        refused: its error is `NotRehearsable`.

        Raises:
            Exception: Whatever the drivers raise, when not even its revision can be read.
        """
        attempts = Attempts(scripts, new_id(), self._limits.lock_timeouts)

        def rehearse(execution: Execution) -> Inspection:
            while True:
                found = _inspect(execution, scripts)
                if found.error is not None or not found.pending:
                    return found
                try:
                    if attempts.rehearse(execution, found.revision, found.pending):
                        return found
                except Exception as error:  # noqa: BLE001 - a revision can raise anything
                    return Inspection(found.revision, found.pending, error)

        async with asyncio.timeout(self._limits.deadline_seconds):
            return await self._run(url, scripts.streams, rehearse)

    async def read_dialect(self, url: str, streams: Streams) -> sa.Dialect:
        """Return the dialect with which revisions are recorded for the database at *url*.

        Raises:
            Exception: Whatever the drivers raise.
        """
        return await self._run(url, streams, lambda execution: execution.dialect)

    async def initialise(self, url: str, scripts: RunScripts, *, run_id: UUID) -> None:
        """Make the database at *url* ready for scripts, and bring it to the head.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        attempts = Attempts(scripts, run_id, self._limits.lock_timeouts)

        def initialise(execution: Execution) -> None:
            execution.execute(bootstrap(execution.dialect), wait_ms=BOOTSTRAP_WAIT_MS)
            attempts.to_head(execution, is_first=True)

        await self._run(url, scripts.streams, initialise)

    async def add_tables(
        self, url: str, streams: Streams, *, run_id: UUID, wait_ms: int, stamp: str | None
    ) -> SchemaRevision:
        """Add our own tables to a database that was made elsewhere, and return where it then is.

        Args:
            url: Where the database is.
            streams: The user's stream stays where it is.
            run_id: Is in the log of our tables.
            wait_ms: How long to wait at a lock.
            stamp: The revision of its own to write into an empty version table; None for none.

        Raises:
            SchemaMoved: Another process was quicker.
            Exception: Whatever the drivers raise.
        """

        def add(execution: Execution) -> SchemaRevision:
            dialect = execution.dialect
            script = RunScripts(Streams(streams.own)).get(dialect, SchemaRevision(BASE, None))
            timeouts = LockTimeouts(swap_ms=wait_ms, lock_ms=wait_ms)
            steps = [*bootstrap(dialect), *script.steps(run_id, timeouts)]
            if stamp is not None:
                steps += write_stamp(dialect, streams.user_table, stamp, run_id=run_id)
            execution.execute(steps, wait_ms=wait_ms)
            return execution.read_state().revision

        return await self._run(url, streams, add)

    async def _run(self, url: str, streams: Streams, work: Callable[[Execution], Result]) -> Result:
        """Return what *work* returns, which runs in a thread with a connection of its own.

        A thread cannot be cancelled. Its statement can, and its guard refuses the next one and
        the commit, so that nothing is committed after it was called a failure.
        """
        execution = self._execution(url, streams.user_table if streams.user else None)

        def run() -> Result:
            with contextlib.closing(execution):
                execution.guard.check_stopped()
                return work(execution)

        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, run)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stopping = loop.run_in_executor(None, execution.stop)
            for one in (running, stopping):
                one.add_done_callback(_read_error)
            await asyncio.wait([running], timeout=STOP_SECONDS_MAX)
            raise

    def _execution(self, url: str, user_table: str | None) -> Execution:
        path = sqlite_path(url)
        if path is not None:
            return SqliteExecution(path, user_table=user_table, lock_ms=self._limits.lock_ms)
        return PostgresExecution(
            url,
            user_table=user_table,
            driver=self._driver,
            dialects=self._dialects,
            timeout_seconds=self._limits.connect_seconds,
        )


def _inspect(execution: Execution, scripts: RunScripts) -> Inspection:
    revision = execution.read_state().revision
    try:
        return Inspection(revision, scripts.pending(revision))
    except Unavailable as error:  # the revisions cannot be read, or do not lead on from here
        return Inspection(revision, [], error)


def _result_after(execution: Execution, run_id: UUID, error: Exception) -> MigrationResult:
    """Return what has stayed in a database after *error*."""
    try:
        state = execution.read_state(run_id)
    except Exception as unreadable:
        raise error from unreadable
    return MigrationResult(state.applied, state.revision, error)


def _read_error(done: "asyncio.Future[Any]") -> None:
    """Read the error of work that was given up, so that asyncio does not log it as lost."""
    if not done.cancelled():
        done.exception()
