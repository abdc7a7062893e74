"""This process as a runner: its heartbeat, without which what it holds is free again."""

import asyncio
import contextlib
from uuid import UUID

import structlog

from tenantry.catalog import runners
from tenantry.catalog.database import Catalog
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.ids import new_id

BEAT_SECONDS = runners.SILENCE_MS / 1000 / 4

_log = structlog.get_logger(__name__)


class Runner:
    """One process among those that work on a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.id: UUID = new_id()
        self._catalog = catalog

    async def beat(self) -> None:
        """Say once that this process lives.

        Raises:
            DatabaseUnavailable: Nobody heard it.
        """
        await runners.beat(self._catalog, self.id)

    async def keep_beating(self) -> None:
        """Say it for ever."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self.beat()
            except DatabaseUnavailable:
                _log.warning("heartbeat missed", runner=str(self.id))

    async def end(self) -> None:
        """Say that this process has ended."""
        with contextlib.suppress(DatabaseUnavailable):
            await runners.remove(self._catalog, self.id)
