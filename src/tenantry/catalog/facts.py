"""The cache of catalog values, invalidated by the epoch.

Every change of a cached value increments the catalog's epoch in the same transaction. Each
process reads the epoch a few times a second and clears its cache when it has changed. A
process that cannot read the epoch bypasses its cache and reads the catalog each time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import catalog
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.kit.clock import monotonic_seconds

Fact = TypeVar("Fact")

# A change applies everywhere within a second: the sum of the polling interval and the time for
# which the cache is valid without another poll.
LOOK_SECONDS = 0.25
BELIEVED_SECONDS = 0.75
FACTS_MAX = 10_000


class CatalogRow(msgspec.Struct, frozen=True):
    """The one row of the table ``catalog``."""

    id: UUID
    epoch: int


READ_EPOCH = Statement(sa.select(catalog), CatalogRow)


class Facts:
    """What this process remembers of the catalog.

    Args:
        session: Reads the catalog.

    Attributes:
        generation: Of what is remembered; another one whenever all of it is forgotten.
    """

    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        self._facts: dict[Hashable, Any] = {}
        self.generation = 0
        self._row: CatalogRow | None = None
        self._looked_at = float("-inf")

    @property
    def catalog_id(self) -> UUID:
        """The id of the catalog; known after the first poll."""
        assert self._row is not None, "the epoch was read at the start"
        return self._row.id

    @property
    def are_believed(self) -> bool:
        """Whether the epoch was read recently enough."""
        return monotonic_seconds() - self._looked_at < BELIEVED_SECONDS

    def recall(self, key: Hashable) -> Any | None:
        """Return the fact *key* if it is remembered and believed, which it nearly always is."""
        return self._facts.get(key) if self.are_believed else None

    async def get(
        self, key: Hashable, read: Callable[[CatalogSession], Awaitable[Fact | None]]
    ) -> Fact | None:
        """Return the fact *key*: remembered, or from *read*. None is never remembered.

        Raises:
            DatabaseUnavailable: It must be read, and the catalog cannot be reached.
        """
        fact: Fact | None = self.recall(key)
        if fact is not None:
            return fact
        generation = self.generation
        fact = await read(self._session)
        # A read that began before a change may hold what the change replaced.
        if fact is not None and generation == self.generation:
            if len(self._facts) >= FACTS_MAX:
                self._facts.clear()
            self._facts[key] = fact
        return fact

    def forget(self) -> None:
        """Forget everything, and do not remember what is being read at this moment."""
        self.generation += 1
        self._facts.clear()

    async def look(self) -> None:
        """Read the epoch once, and clear the cache if it has changed."""
        looked_at = monotonic_seconds()
        row = await self._session.fetch_one(READ_EPOCH)
        assert row is not None, "the first revision writes it"
        if row != self._row or not self.are_believed:
            self.forget()
        self._row, self._looked_at = row, looked_at

    async def watch(self) -> None:
        """Poll the epoch until cancelled."""
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await self.look()
            await asyncio.sleep(LOOK_SECONDS)
