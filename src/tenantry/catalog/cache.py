"""The cache of the catalog, invalidated by the catalog's epoch.

A change of a cached value increments the epoch in the same transaction. Each process reads the
epoch a few times a second, and clears its cache if it has changed. A process that could not read
it for `Pace.fresh_seconds` does not use its cache, and reads the catalog each time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import catalog
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.kit.clock import monotonic_seconds

Value = TypeVar("Value")

ENTRIES_MAX = 10_000


class CatalogRow(msgspec.Struct, frozen=True):
    """The one row of the table ``catalog``."""

    id: UUID
    epoch: int


READ_EPOCH = Statement(sa.select(catalog), CatalogRow)


class CatalogCache:
    """Values of the catalog that this process has read.

    Attributes:
        generation: Changes whenever the cache is cleared.
        fresh_until: Until when the last check of the epoch is recent enough, by the monotonic
            clock. Every request compares it.
    """

    def __init__(self, session: CatalogSession, pace: Pace = PACE) -> None:
        self._session = session
        self._pace = pace
        self._values: dict[Hashable, Any] = {}
        self.generation = 0
        self._row: CatalogRow | None = None
        self.fresh_until = float("-inf")

    @property
    def catalog_id(self) -> UUID:
        """The id of the catalog; known after the first check."""
        assert self._row is not None, "the epoch was checked"
        return self._row.id

    @property
    def is_fresh(self) -> bool:
        """Whether the last check of the epoch is recent enough."""
        return monotonic_seconds() < self.fresh_until

    def find(self, key: Hashable) -> Any | None:
        """Return the value of *key* if it is cached and the cache is fresh."""
        return self._values.get(key) if self.is_fresh else None

    async def get(
        self, key: Hashable, read: Callable[[CatalogSession], Awaitable[Value | None]]
    ) -> Value | None:
        """Return the value of *key*: cached, or from *read*. None is never cached.

        Raises:
            DatabaseUnavailable: It must be read, and the catalog cannot be reached.
        """
        value: Value | None = self.find(key)
        if value is not None:
            return value
        generation = self.generation
        value = await read(self._session)
        # A read that began before a change may have returned the old value.
        if value is not None and generation == self.generation:
            if len(self._values) >= ENTRIES_MAX:
                self._values.clear()
            self._values[key] = value
        return value

    def clear(self) -> None:
        """Clear the cache, and do not cache the results of reads in progress."""
        self.generation += 1
        self._values.clear()

    async def check_epoch(self) -> None:
        """Read the epoch, and clear the cache if it has changed."""
        checked_at = monotonic_seconds()
        row = await self._session.fetch_one(READ_EPOCH)
        assert row is not None, "the first revision writes it"
        if row != self._row or not self.is_fresh:
            self.clear()
        self._row, self.fresh_until = row, checked_at + self._pace.fresh_seconds

    async def keep_checking(self) -> None:
        """Check the epoch every `Pace.check_seconds` until cancelled."""
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                await self.check_epoch()
            await asyncio.sleep(self._pace.check_seconds)
