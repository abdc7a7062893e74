"""Refuse writes of content that could fill a disk, or make a tenant larger than its limit.

Two things are measured: the space that is free where the SQLite files of a tenant server are, and
the size of the database of a tenant that has a limit. A measurement is used for
`MEASURED_SECONDS`; in between, each write is counted as the largest one. When the counted writes
could have used up what was left, the next write measures again. So a write costs a comparison, and
what is written beyond a limit is at most the writes that are in work at the same time, and what
other processes write in `MEASURED_SECONDS`.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable, StorageFull
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Conflict
from tenantry.kit.sizes import FreeSpaceMark, shown_size, space_above
from tenantry.kit.stopping import start_thread
from tenantry.tenant.databases import TenantDatabase, TenantDatabases
from tenantry.tenant.overview import read_size

MEASURED_SECONDS = 2.0
# A body of 1 MiB with the character whose folded form is the longest, 11 times as long, its version
# and that of the text before; each page is also written to the log of SQLite.
WRITE_BYTES_MAX = 32 * 2**20
# Measured tenants; the one that was unused longest is dropped, and measured again.
MEASURED_MAX = 4_096


class TenantFull(Conflict):
    """The tenant has reached its size limit."""


class Room:
    """The bytes that may still be written to one place."""

    __slots__ = ("_left", "_measuring", "_until", "is_full")

    def __init__(self) -> None:
        self._left = 0.0
        self._until = 0.0
        self._measuring: asyncio.Future[float] | None = None
        self.is_full = False

    async def take(self, measure: Callable[..., Awaitable[float]], *about: Any) -> bool:
        """Count a write; return False if there is no room for it.

        *measure* takes *about*, and returns the bytes that are left. Concurrent callers share one
        measurement.
        """
        if monotonic_seconds() >= self._until or (self._left <= 0 and not self.is_full):
            if self._measuring is None:
                self._measuring = asyncio.ensure_future(measure(*about))
                self._measuring.add_done_callback(self._note)
            # Shielded: the measurement goes on for the others when one request is cancelled.
            await asyncio.shield(self._measuring)
        if self.is_full:
            return False
        self._left -= WRITE_BYTES_MAX
        return True

    def _note(self, measured: "asyncio.Future[float]") -> None:
        self._measuring = None
        if measured.cancelled() or measured.exception() is not None:
            return
        self._left = measured.result()
        self.is_full = self._left <= 0
        self._until = monotonic_seconds() + MEASURED_SECONDS


class Storage:
    """Knows how much may be written.

    Args:
        databases: The open tenant databases, and their servers.
        mark: What must stay free on the disk of a SQLite folder.
        tenant_bytes_max: The size limit of a tenant without its own; 0 for none.
    """

    def __init__(
        self, databases: TenantDatabases, *, mark: FreeSpaceMark, tenant_bytes_max: int
    ) -> None:
        self._databases = databases
        self._mark = mark
        self._tenant_bytes_max = tenant_bytes_max
        self._servers: dict[str, Room] = {}
        # With the limit in the key: a new one is used at once.
        self._tenants: OrderedDict[tuple[int, int], Room] = OrderedDict()

    def limit_of(self, tenant: Tenant) -> int | None:
        """Return the size limit of a tenant in bytes; None if it has none."""
        return tenant.size_bytes_max or self._tenant_bytes_max or None

    async def take(self, tenant: Tenant, database: TenantDatabase) -> None:
        """Count a write of content to the database of *tenant*.

        Raises:
            StorageFull: The disk has less free space than the mark.
            TenantFull: The database has reached its size limit.
            DatabaseUnavailable: The disk or the database cannot be read.
        """
        name = tenant.server_name
        room = self._servers.get(name)
        if room is None:
            room = self._servers[name] = Room()
        if not await room.take(self._measure_disk, name):
            raise StorageFull
        limit = tenant.size_bytes_max or self._tenant_bytes_max
        if not limit:
            return
        if not await self._room_of(tenant, limit).take(_measure_tenant, database, limit):
            # On PostgreSQL, the size of a database stays as it is when rows are deleted.
            is_file = self._databases.server(name).folder is not None
            remedy = "delete posts and empty the bin, or " if is_file else ""
            raise TenantFull(
                f"The tenant has reached its size limit of {shown_size(limit)}: {remedy}ask the "
                "operator for a higher limit."
            )

    def forget(self, tenant: Tenant) -> None:
        """Measure a tenant again before the next write: some of its content was deleted."""
        limit = self.limit_of(tenant)
        if limit is not None:
            # Not emptied: a measurement in work is from before.
            self._tenants.pop((tenant.id.int, limit), None)

    def _room_of(self, tenant: Tenant, limit: int) -> Room:
        key = (tenant.id.int, limit)
        room = self._tenants.get(key)
        if room is None:
            room = self._tenants[key] = Room()
            if len(self._tenants) > MEASURED_MAX:
                self._tenants.popitem(last=False)
        else:
            self._tenants.move_to_end(key)
        return room

    async def _measure_disk(self, server_name: str) -> float:
        folder = self._databases.server(server_name).folder
        if folder is None or self._mark.is_off:
            return math.inf
        try:
            return await start_thread(partial(space_above, folder, self._mark))
        except OSError as error:
            raise DatabaseUnavailable from error


async def _measure_tenant(database: TenantDatabase, limit: int) -> float:
    return limit - await read_size(database)
