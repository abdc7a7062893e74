"""Migrate one database to the head of its streams, within a deadline.

The work itself is synchronous (`LockRetries`, `Execution`) and runs in one thread from the
connection to the COMMIT. This module sets its deadline, and stops it when the deadline passes.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.urls import sqlite_path
from tenantry.kit.ids import new_id
from tenantry.migration import live
from tenantry.migration.bootstrap import (
    bootstrap,
    write_stamp,
    write_version,
)
from tenantry.migration.execution import Execution
from tenantry.migration.execution_sqlite import SqliteExecution
from tenantry.migration.lock_retries import LOCK_PAUSE_SECONDS_MAX, Inspection, LockRetries
from tenantry.migration.lock_timeouts import BOOTSTRAP_WAIT_MS, LockTimeouts, timeouts_sql
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import BASE, Schema, SchemaRevision, SchemaState, Undo
from tenantry.migration.statements import LockAwaited, SchemaMoved, Statement
from tenantry.migration.streams import Streams

if TYPE_CHECKING:
    from tenantry.settings import Settings

SPARE_SECONDS_MAX = 3.0
SPARE_PART_MAX = 0.2

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """The time limits of the migration of one database.

    Attributes:
        connect_seconds: For a connection.
        deadline_seconds: For the whole migration.
        lock_ms: For one lock; the tenant's requests queue behind it.
        lock_pause_seconds: The longest pause after a lock timeout.
    """

    connect_seconds: float
    deadline_seconds: float
    lock_ms: int
    lock_pause_seconds: float = LOCK_PAUSE_SECONDS_MAX

    @property
    def spare_seconds(self) -> float:
        """How much of the deadline is left to stop the work, and to read its result."""
        return min(SPARE_SECONDS_MAX, self.deadline_seconds * SPARE_PART_MAX)


def time_limits_of(settings: "Settings") -> TimeLimits:
    """Return the time limits in *settings*."""
    return TimeLimits(
        connect_seconds=settings.connect_timeout_s,
        deadline_seconds=settings.tenant_deadline_s,
        lock_ms=settings.lock_timeout_ms,
    )


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
        self._work_seconds = limits.deadline_seconds - limits.spare_seconds
        swap_ms = max(1, int(self._work_seconds * 1000))
        self._timeouts = LockTimeouts(swap_ms=swap_ms, lock_ms=limits.lock_ms)
        self._driver = driver
        self._dialects = live.SharedDialects()

    async def migrate(
        self,
        url: str,
        scripts: RunScripts,
        *,
        run_id: UUID,
        is_first: bool = True,
        planned_from: str | None = None,
        has_files: Callable[[], bool] | None = None,
        must_be_logged: bool = False,
    ) -> SchemaState:
        """Migrate the database at *url* to the head; return its state, with the error if it failed.

        It ends at the deadline, even if the server does not respond. *is_first* is whether this run
        has not begun with this database yet. With *planned_from*, it fails with `NotPlanned` if the
        database is not at this revision. With *has_files*, it fails with `FilesReplaced`, and is
        rolled back, if that returns False before the COMMIT. With *must_be_logged*, an undo fails
        with `LogLost` if the log has no row of the run.

        Raises:
            Exception: Any error of the drivers, if the state cannot be read afterwards.
        """
        attempts = self._attempts(scripts, run_id, planned_from, has_files, must_be_logged)
        ends = asyncio.get_running_loop().time() + self._limits.deadline_seconds
        try:
            work = partial(attempts.migrate, is_first=is_first)
            return await self._run(url, scripts.streams, work, seconds=self._work_seconds)
        except Exception as failed:
            if not attempts.has_sent:
                raise
            # The connection was lost or timed out, so something may have been committed.
            error = failed
        # A process that was frozen in the COMMIT has no time left, and must know what it has done.
        left = max(ends - asyncio.get_running_loop().time(), self._limits.spare_seconds)
        work = partial(attempts.state_after, error=error)
        return await self._run(url, scripts.streams, work, seconds=left)

    async def read_state(
        self,
        url: str,
        streams: Streams,
        *,
        run_id: UUID | None = None,
        undo: Undo | None = None,
    ) -> SchemaState:
        """Return the revision of the database at *url*, and what a run, if any, has applied there.

        With *undo*, also what can be undone there.

        Raises:
            Exception: Any error of the drivers.
        """
        work = partial(Execution.read_state, run_id=run_id, undo=undo)
        return await self._run(url, streams, work, seconds=self._limits.deadline_seconds)

    async def check_empty(self, url: str, streams: Streams) -> None:
        """Check that the database at *url*, if it has no revision of Tenantry, has no tables.

        Raises:
            HasOtherTables: It has some.
            Exception: Any error of the drivers.
        """
        await self._run(url, streams, Execution.check_empty, seconds=self._limits.deadline_seconds)

    async def read_schema(self, url: str, streams: Streams) -> Schema:
        """Return the revision of the database at *url*, and the objects of its schema.

        Raises:
            SchemaMoved: It was migrated at the same time.
            Exception: Any error of the drivers.
        """
        seconds = self._limits.deadline_seconds
        return await self._run(url, streams, Execution.read_schema, seconds=seconds)

    async def inspect(
        self, url: str, scripts: RunScripts, *, rehearses: bool = False
    ) -> Inspection:
        """Return the pending revisions of the database at *url*, and change nothing.

        A rehearsal executes the same as `migrate`, and rolls it back. It takes the same locks, in
        the same order, for as long. A revision that a rollback would not undo is rejected with
        `NotRehearsable`.

        Raises:
            Exception: Any error of the drivers, if its revision cannot be read.
        """
        attempts = self._attempts(scripts, new_id())
        work = attempts.rehearse if rehearses else attempts.inspect
        return await self._run(url, scripts.streams, work, seconds=self._limits.deadline_seconds)

    async def read_dialect(self, url: str, streams: Streams) -> sa.Dialect:
        """Return the dialect that records revisions for the database at *url*.

        Raises:
            Exception: Any error of the drivers.
        """
        return await self._run(url, streams, lambda execution: execution.dialect)

    async def initialise(
        self, url: str, scripts: RunScripts, *, run_id: UUID, needs_empty: bool = False
    ) -> None:
        """Prepare the database at *url* for scripts, and migrate it to the head.

        With *needs_empty*, one without a revision of Tenantry must have no tables.

        Raises:
            HasOtherTables: It has some, and nothing was changed.
            Exception: Any error of the drivers and the revisions.
        """

        def initialise(execution: Execution) -> None:
            if needs_empty:
                execution.check_empty()
            if not scripts.streams.is_attached:
                execution.execute(bootstrap(execution.dialect), wait_ms=BOOTSTRAP_WAIT_MS)
            self._attempts(scripts, run_id).to_head(execution)

        await self._run(url, scripts.streams, initialise)

    async def add_tables(
        self, url: str, streams: Streams, *, run_id: UUID, wait_ms: int, stamp: str | None
    ) -> SchemaRevision:
        """Add Tenantry's tables to a database that it did not create; return the new revision.

        The revision of the user's stream does not change, but for a *stamp*, which is written into
        an empty version table. It waits *wait_ms* for a lock.

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
                steps += write_stamp(dialect, streams.user_table, stamp, run_id)
            execution.execute(steps, wait_ms=wait_ms)
            return execution.read_state().revision

        return await self._run(url, streams, add)

    async def stamp(self, url: str, streams: Streams, revision: str) -> SchemaRevision:
        """Write *revision* of the user's stream to an attached database, unless it has one.

        Return the revision that it has then.

        Raises:
            Exception: Any error of the drivers.
        """

        def stamp(execution: Execution) -> SchemaRevision:
            dialect, wait_ms = execution.dialect, self._timeouts.lock_ms
            steps = write_version(dialect, streams.user_table, revision)
            with contextlib.suppress(SchemaMoved):  # another program has written one
                timeouts = map(Statement, timeouts_sql(dialect, wait_ms))
                execution.execute([*timeouts, *steps], wait_ms=wait_ms)
            return execution.read_state().revision

        return await self._run(url, streams, stamp, seconds=self._limits.deadline_seconds)

    def _attempts(
        self,
        scripts: RunScripts,
        run_id: UUID,
        planned_from: str | None = None,
        has_files: Callable[[], bool] | None = None,
        must_be_logged: bool = False,  # noqa: FBT001, FBT002 - private
    ) -> LockRetries:
        return LockRetries(
            scripts,
            run_id,
            self._timeouts,
            lock_pause_seconds=self._limits.lock_pause_seconds,
            planned_from=planned_from,
            has_files=has_files,
            must_be_logged=must_be_logged,
        )

    async def _run(
        self,
        url: str,
        streams: Streams,
        work: Callable[[Execution], Result],
        *,
        seconds: float | None = None,
    ) -> Result:
        """Run *work* in a thread with its own connection, and return its result.

        A thread cannot be cancelled. But its statement can, and its guard rejects the next
        statement and the commit, so nothing is committed after this has raised an error.

        Raises:
            LockAwaited: It took longer than *seconds*, and had asked for the lock of a migration.
            Exception: Any error of *work*.
        """
        execution = self._execution(url, streams)

        def run() -> Result:
            with contextlib.closing(execution):
                execution.guard.check_stopped()
                return work(execution)

        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                running = loop.run_in_executor(self._threads, run)
                try:
                    return await asyncio.shield(running)
                except asyncio.CancelledError:
                    # At once: `stop` waits for a thread.
                    execution.guard.stop.set()
                    stopping = loop.run_in_executor(None, execution.stop)
                    for one in (running, stopping):
                        one.add_done_callback(_read_error)
                    await asyncio.wait([running], timeout=self._limits.spare_seconds)
                    raise
        except TimeoutError as late:
            if execution.guard.awaits_other:
                raise LockAwaited from late
            raise

    def _execution(self, url: str, streams: Streams) -> Execution:
        user_table = streams.user_table if streams.user else None
        path = sqlite_path(url)
        attached_at = streams.own.head if streams.is_attached else None
        if path is not None:
            return SqliteExecution(
                path, user_table=user_table, attached_at=attached_at, lock_ms=self._limits.lock_ms
            )
        from tenantry.migration import execution_postgres  # noqa: PLC0415 - psycopg is slow to import

        return execution_postgres.PostgresExecution(
            url,
            user_table=user_table,
            attached_at=attached_at,
            driver=self._driver,
            dialects=self._dialects,
            timeout_seconds=self._limits.connect_seconds,
        )


def _read_error(done: "asyncio.Future[Any]") -> None:
    """Retrieve the error of abandoned work, so that asyncio does not log it as never retrieved."""
    if not done.cancelled():
        done.exception()
