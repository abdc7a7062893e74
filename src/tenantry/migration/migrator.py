"""Bring one database to the head of its streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from tenantry.migration.attempts import Inspection, MigrationResult, TimeLimits, Visit
from tenantry.migration.execution import open_migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaRevision
from tenantry.migration.streams import Streams

__all__ = ["Inspection", "MigrationResult", "Migrator", "RunScripts", "TimeLimits"]


class Migrator:
    """Migrates databases.

    Args:
        threads: Where SQLite runs; not closed here.
        patience: For each database.
    """

    def __init__(self, threads: Executor, patience: TimeLimits) -> None:
        self._threads = threads
        self._patience = patience

    async def migrate(
        self,
        url: str,
        scripts: RunScripts,
        *,
        run_id: UUID,
        now: Callable[[], datetime],
        is_first: bool = False,
    ) -> MigrationResult:
        """Bring the database at *url* to the head, and tell what became of it.

        It ends at the deadline, even if the server has gone silent.

        Args:
            url: Where the database is.
            scripts: Of the run.
            run_id: The run.
            now: The clock.
            is_first: Nobody has begun with this database in this run.

        Raises:
            Exception: Whatever the drivers raise, when not even that can be told.
        """
        visit: Visit | None = None
        async with asyncio.timeout(self._patience.deadline_seconds):
            try:
                async with (
                    asyncio.timeout(self._patience.work_seconds),
                    self._visit(url, scripts) as visit,
                ):
                    return await visit.migrate(run_id, now, is_first=is_first)
            except Exception as error:
                if visit is None or not visit.has_sent:
                    raise
                # The connection is lost, or was silent, and something may have stayed.
                return await self._find_out(url, scripts, run_id, error)

    async def read_result(self, url: str, scripts: RunScripts, *, run_id: UUID) -> MigrationResult:
        """Tell what a run has done to the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when that cannot be told.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, scripts) as visit,
        ):
            standing = await visit.standing(run_id)
            return MigrationResult(standing.applied, standing.revision, None)

    async def inspect(self, url: str, scripts: RunScripts) -> Inspection:
        """Tell what is pending in the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when not even its position can be told.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, scripts) as visit,
        ):
            return await visit.look()

    async def rehearse(self, url: str, scripts: RunScripts) -> Inspection:
        """Do what `migrate` does to the database at *url*, and take it back.

        It takes the same locks, in the same order, for as long. What runs outside a
        transaction cannot be taken back: its error is `NotRehearsable`.

        Raises:
            Exception: Whatever the drivers raise, when not even its position can be told.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, scripts) as visit,
        ):
            return await visit.rehearse()

    async def read_dialect(self, url: str) -> sa.Dialect:
        """Return the dialect of the database at *url*, by which revisions are recorded.

        Raises:
            Exception: Whatever the drivers raise.
        """
        migrator = await open_migrator(
            url, self._threads, user_table=None, timeout_seconds=self._patience.connect_seconds
        )
        try:
            return migrator.dialect
        finally:
            await migrator.close()

    async def initialise(
        self, url: str, scripts: RunScripts, *, run_id: UUID, now: datetime
    ) -> None:
        """Make the database at *url* ready for scripts, and bring it to the head.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        async with self._visit(url, scripts) as visit:
            await visit.bootstrap()
            await visit.to_head(run_id, lambda: now, is_first=True)

    async def read_revision(self, url: str, streams: Streams) -> SchemaRevision:
        """Return where the database at *url* stands.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, RunScripts(streams)) as visit,
        ):
            return (await visit.standing()).revision

    async def _find_out(
        self, url: str, scripts: RunScripts, run_id: UUID, error: Exception
    ) -> MigrationResult:
        """Return what has stayed in a database whose connection was lost by *error*."""
        try:
            async with self._visit(url, scripts) as visit:
                standing = await visit.standing(run_id)
        except Exception as unreadable:
            raise error from unreadable
        return MigrationResult(standing.applied, standing.revision, error)

    @asynccontextmanager
    async def _visit(self, url: str, scripts: RunScripts) -> AsyncIterator[Visit]:
        streams = scripts.streams
        migrator = await open_migrator(
            url,
            self._threads,
            user_table=streams.user_table if streams.user else None,
            timeout_seconds=self._patience.connect_seconds,
        )
        try:
            yield Visit(migrator, scripts, self._patience)
        finally:
            await migrator.close()
