"""Bring one database to the head of its streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from tenantry.db.apply import open_migrator
from tenantry.db.scripts import Streams
from tenantry.db.versions import Position
from tenantry.fleet.scripts import Scripts
from tenantry.fleet.visits import Looked, Migrated, Patience, Visit

__all__ = ["Looked", "Migrated", "Patience", "SchemaMigrator", "Scripts"]


class SchemaMigrator:
    """Migrates databases.

    Args:
        threads: Where SQLite runs; not closed here.
        patience: For each database.
    """

    def __init__(self, threads: Executor, patience: Patience) -> None:
        self._threads = threads
        self._patience = patience

    async def migrate(
        self,
        url: str,
        scripts: Scripts,
        *,
        run_id: UUID,
        now: Callable[[], datetime],
        is_first: bool = False,
    ) -> Migrated:
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

    async def recall(self, url: str, scripts: Scripts, *, run_id: UUID) -> Migrated:
        """Tell what a run has done to the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when that cannot be told.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, scripts) as visit,
        ):
            standing = await visit.standing(run_id)
            return Migrated(standing.applied, standing.position, None)

    async def look(self, url: str, scripts: Scripts) -> Looked:
        """Tell what is pending in the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when not even its position can be told.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, scripts) as visit,
        ):
            return await visit.look()

    async def rehearse(self, url: str, scripts: Scripts) -> Looked:
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

    async def initialise(self, url: str, scripts: Scripts, *, run_id: UUID, now: datetime) -> None:
        """Make the database at *url* ready for scripts, and bring it to the head.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        async with self._visit(url, scripts) as visit:
            await visit.bootstrap()
            await visit.to_head(run_id, lambda: now, is_first=True)

    async def position(self, url: str, streams: Streams) -> Position:
        """Return where the database at *url* stands.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with (
            asyncio.timeout(self._patience.deadline_seconds),
            self._visit(url, Scripts(streams)) as visit,
        ):
            return (await visit.standing()).position

    async def _find_out(
        self, url: str, scripts: Scripts, run_id: UUID, error: Exception
    ) -> Migrated:
        """Return what has stayed in a database whose connection was lost by *error*."""
        try:
            async with self._visit(url, scripts) as visit:
                standing = await visit.standing(run_id)
        except Exception as unreadable:
            raise error from unreadable
        return Migrated(standing.applied, standing.position, error)

    @asynccontextmanager
    async def _visit(self, url: str, scripts: Scripts) -> AsyncIterator[Visit]:
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
