"""Migrate one database: bring it to the head of its streams, within a deadline."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
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
        threads: Where SQLite runs, and revisions that run live; not closed here.
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
        self,
        url: str,
        scripts: RunScripts,
        *,
        run_id: UUID,
        now: Callable[[], datetime],
        is_first: bool = False,
    ) -> MigrationResult:
        """Bring the database at *url* to the head, and return what was done.

        It ends at the deadline, even if the server has gone silent.

        Args:
            url: Where the database is.
            scripts: Of the run.
            run_id: The run.
            now: The clock.
            is_first: This run has not begun with this database yet.

        Raises:
            Exception: Whatever the drivers raise, when the database cannot be read either.
        """
        attempts = self._attempts(scripts, run_id, now)
        async with asyncio.timeout(self._limits.deadline_seconds):
            try:
                async with (
                    asyncio.timeout(self._limits.work_seconds),
                    self._opened(url, scripts.streams) as execution,
                ):
                    try:
                        state = await attempts.to_head(execution, is_first=is_first)
                    except Exception as error:  # noqa: BLE001 - a revision can raise anything
                        return await _result_after(execution, run_id, error)
                    return MigrationResult(state.applied, state.revision, None)
            except Exception as error:
                if not attempts.has_sent:
                    raise
                # The connection is lost, or was silent, and something may have stayed.
                async with self._opened(url, scripts.streams) as execution:
                    return await _result_after(execution, run_id, error)

    async def read_result(self, url: str, scripts: RunScripts, *, run_id: UUID) -> MigrationResult:
        """Return what a run has done to the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with (
            asyncio.timeout(self._limits.deadline_seconds),
            self._opened(url, scripts.streams) as execution,
        ):
            state = await execution.read_state(run_id)
            return MigrationResult(state.applied, state.revision, None)

    async def read_revision(self, url: str, streams: Streams) -> SchemaRevision:
        """Return where the database at *url* is.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with (
            asyncio.timeout(self._limits.deadline_seconds),
            self._opened(url, streams) as execution,
        ):
            return (await execution.read_state()).revision

    async def inspect(self, url: str, scripts: RunScripts) -> Inspection:
        """Return what is pending in the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when not even its revision can be read.
        """
        async with (
            asyncio.timeout(self._limits.deadline_seconds),
            self._opened(url, scripts.streams) as execution,
        ):
            return await _inspect(execution, scripts)

    async def rehearse(self, url: str, scripts: RunScripts) -> Inspection:
        """Do what `migrate` does to the database at *url*, and roll it back.

        It takes the same locks, in the same order, for as long. What no rollback undoes is
        refused: its error is `NotRehearsable`.

        Raises:
            Exception: Whatever the drivers raise, when not even its revision can be read.
        """
        attempts = self._attempts(scripts, new_id(), utc_now)
        async with (
            asyncio.timeout(self._limits.deadline_seconds),
            self._opened(url, scripts.streams) as execution,
        ):
            while True:
                inspection = await _inspect(execution, scripts)
                if inspection.error is not None or not inspection.pending:
                    return inspection
                try:
                    if await attempts.rehearse(execution, inspection.revision, inspection.pending):
                        return inspection
                except Exception as error:  # noqa: BLE001 - a revision can raise anything
                    return Inspection(inspection.revision, inspection.pending, error)

    async def read_dialect(self, url: str) -> sa.Dialect:
        """Return the dialect with which revisions are recorded for the database at *url*.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with self._execution(url, None) as execution:
            return await execution.dialect()

    async def initialise(
        self, url: str, scripts: RunScripts, *, run_id: UUID, now: datetime
    ) -> None:
        """Make the database at *url* ready for scripts, and bring it to the head.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        attempts = self._attempts(scripts, run_id, lambda: now)
        async with self._opened(url, scripts.streams) as execution:
            dialect = await execution.dialect()
            await execution.execute(bootstrap(dialect), dialect, wait_ms=BOOTSTRAP_WAIT_MS)
            await attempts.to_head(execution, is_first=True)

    async def add_tables(
        self,
        url: str,
        streams: Streams,
        *,
        run_id: UUID,
        now: datetime,
        wait_ms: int,
        stamp: str | None,
    ) -> SchemaRevision:
        """Add our own tables to a database that was made elsewhere, and return where it then is.

        Args:
            url: Where the database is.
            streams: The user's stream stays where it is.
            run_id: Is in the log of our tables.
            now: The time.
            wait_ms: How long to wait at a lock.
            stamp: The revision of its own to write into an empty version table; None for none.

        Raises:
            SchemaMoved: Another process was quicker.
            Exception: Whatever the drivers raise.
        """
        async with self._opened(url, streams) as execution:
            dialect = await execution.dialect()
            start = SchemaRevision(BASE, None)
            script = await RunScripts(Streams(streams.own)).get(dialect, start)
            timeouts = LockTimeouts(swap_ms=wait_ms, lock_ms=wait_ms)
            steps = [*bootstrap(dialect), *script.steps(run_id, now, timeouts)]
            if stamp is not None:
                steps += write_stamp(dialect, streams.user_table, stamp, run_id=run_id, now=now)
            await execution.execute(steps, dialect, wait_ms=wait_ms)
            return (await execution.read_state()).revision

    def _attempts(self, scripts: RunScripts, run_id: UUID, now: Callable[[], datetime]) -> Attempts:
        return Attempts(
            scripts,
            run_id,
            now,
            work_seconds=self._limits.work_seconds,
            lock_ms=self._limits.lock_ms,
        )

    @asynccontextmanager
    async def _opened(self, url: str, streams: Streams) -> AsyncIterator[Execution]:
        user_table = streams.user_table if streams.user else None
        async with self._execution(url, user_table) as execution:
            yield execution

    @asynccontextmanager
    async def _execution(self, url: str, user_table: str | None) -> AsyncIterator[Execution]:
        path = sqlite_path(url)
        execution: Execution
        if path is not None:
            execution = SqliteExecution(
                path, self._threads, user_table=user_table, lock_ms=self._limits.lock_ms
            )
        else:
            execution = PostgresExecution(
                url,
                self._threads,
                user_table=user_table,
                driver=self._driver,
                dialects=self._dialects,
                timeout_seconds=self._limits.connect_seconds,
            )
        try:
            yield execution
        finally:
            await execution.close()


async def _inspect(execution: Execution, scripts: RunScripts) -> Inspection:
    revision = (await execution.read_state()).revision
    try:
        return Inspection(revision, await scripts.pending(revision))
    except Unavailable as error:  # the revisions cannot be read, or do not lead on from here
        return Inspection(revision, [], error)


async def _result_after(execution: Execution, run_id: UUID, error: Exception) -> MigrationResult:
    """Return what has stayed in a database after *error*."""
    try:
        state = await execution.read_state(run_id)
    except Exception as unreadable:
        raise error from unreadable
    return MigrationResult(state.applied, state.revision, error)
