"""Migrate one database to the head of its streams, within a deadline.

The work itself is synchronous (`Attempts`, `Execution`) and runs in one thread from the
connection to the COMMIT. This module sets its deadline, and stops it when the deadline passes.
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
# How long a task waits for a stopped thread to end.
STOP_SECONDS_MAX = 5.0

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """The time limits of the migration of one database.

    Attributes:
        connect_seconds: For a connection.
        deadline_seconds: For the whole migration.
        lock_ms: For one lock; the tenant's requests queue behind it.
    """

    connect_seconds: float
    deadline_seconds: float
    lock_ms: int

    @property
    def work_seconds(self) -> float:
        """How long the work may take, so that there is time left to read its result."""
        spare = min(SPARE_SECONDS_MAX, self.deadline_seconds * SPARE_PART_MAX)
        return self.deadline_seconds - spare

    @property
    def lock_timeouts(self) -> LockTimeouts:
        """How long a script waits for locks."""
        return LockTimeouts(swap_ms=max(1, int(self.work_seconds * 1000)), lock_ms=self.lock_ms)


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a run for one database.

    Attributes:
        applied: The revisions of the run in the database's own log. After a crash these can be
            more than this attempt applied; after a failure, these are committed.
        revision: Its current revision.
        error: Why it is not at the head; None if it is.
    """

    applied: list[Applied]
    revision: SchemaRevision
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state of one database before a run, and what a run would apply.

    Attributes:
        revision: Its current revision.
        pending: The revisions that would be applied, in order; empty if unknown.
        error: Why they are unknown; or why the rehearsal failed.
    """

    revision: SchemaRevision
    pending: list[Applied]
    error: Exception | None = None


class Migrator:
    """Migrates databases.

    Args:
        threads: Runs the work for each database; not closed here.
        limits: The time limits for each database.
        driver: The driver for live revisions on PostgreSQL.
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
        """Migrate the database at *url* to the head, and return the result.

        It ends at the deadline, even if the server does not respond.

        Args:
            url: The URL of the database.
            scripts: The scripts of the run.
            run_id: The run.
            is_first: Whether this run has not begun with this database yet.

        Raises:
            Exception: Any error of the drivers, if the state cannot be read afterwards.
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
                # The connection was lost or timed out, so something may have been committed.
                error = failed
            return await self._run(
                url, scripts.streams, lambda execution: _result_after(execution, run_id, error)
            )

    async def read_result(self, url: str, scripts: RunScripts, *, run_id: UUID) -> MigrationResult:
        """Return the result of a run for the database at *url*, and change nothing.

        Raises:
            Exception: Any error of the drivers.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            state = await self._run(
                url, scripts.streams, lambda execution: execution.read_state(run_id)
            )
        return MigrationResult(state.applied, state.revision, None)

    async def read_revision(self, url: str, streams: Streams) -> SchemaRevision:
        """Return the revision of the database at *url*.

        Raises:
            Exception: Any error of the drivers.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            return (await self._run(url, streams, Execution.read_state)).revision

    async def inspect(self, url: str, scripts: RunScripts) -> Inspection:
        """Return the pending revisions of the database at *url*, and change nothing.

        Raises:
            Exception: Any error of the drivers, if its revision cannot be read.
        """
        async with asyncio.timeout(self._limits.deadline_seconds):
            return await self._run(
                url, scripts.streams, lambda execution: _inspect(execution, scripts)
            )

    async def rehearse(self, url: str, scripts: RunScripts) -> Inspection:
        """Execute the same as `migrate` on the database at *url*, and roll it back.

        It takes the same locks, in the same order, for as long. A revision that a rollback would
        not undo is rejected with `NotRehearsable`.

        Raises:
            Exception: Any error of the drivers, if its revision cannot be read.
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
        """Return the dialect that records revisions for the database at *url*.

        Raises:
            Exception: Any error of the drivers.
        """
        return await self._run(url, streams, lambda execution: execution.dialect)

    async def initialise(self, url: str, scripts: RunScripts, *, run_id: UUID) -> None:
        """Prepare the database at *url* for scripts, and migrate it to the head.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        attempts = Attempts(scripts, run_id, self._limits.lock_timeouts)

        def initialise(execution: Execution) -> None:
            execution.execute(bootstrap(execution.dialect), wait_ms=BOOTSTRAP_WAIT_MS)
            attempts.to_head(execution, is_first=True)

        await self._run(url, scripts.streams, initialise)

    async def add_tables(
        self, url: str, streams: Streams, *, run_id: UUID, wait_ms: int, stamp: str | None
    ) -> SchemaRevision:
        """Add Tenantry's tables to a database that it did not create; return the new revision.

        Args:
            url: The URL of the database.
            streams: The streams; the revision of the user's stream does not change.
            run_id: The run to write into the log.
            wait_ms: How long to wait for a lock.
            stamp: The user's revision to write into an empty version table, or None.

        Raises:
            SchemaMoved: Another process has added them first.
            Exception: Any error of the drivers.
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
        """Run *work* in a thread with its own connection, and return its result.

        A thread cannot be cancelled. But its statement can, and its guard rejects the next
        statement and the commit, so nothing is committed after this has raised an error.
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
    except Unavailable as error:  # the revisions cannot be read, or do not contain this one
        return Inspection(revision, [], error)


def _result_after(execution: Execution, run_id: UUID, error: Exception) -> MigrationResult:
    """Return what is committed in a database after *error*."""
    try:
        state = execution.read_state(run_id)
    except Exception as unreadable:
        raise error from unreadable
    return MigrationResult(state.applied, state.revision, error)


def _read_error(done: "asyncio.Future[Any]") -> None:
    """Retrieve the error of abandoned work, so that asyncio does not log it as never retrieved."""
    if not done.cancelled():
        done.exception()
