"""A client that writes to a tenant all the time, and remembers what was acknowledged.

It opens the tenant as a request does, with idle connections, by an entry of the catalog that is as
old as a process may use.
"""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from harness.world import settings_of
from tenantry.catalog import tenants
from tenantry.catalog.pace import PACE
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.services import Services, open_services
from tenantry.tenant.databases import TenantReadOnly

TABLE = "CREATE TABLE written (id INTEGER PRIMARY KEY)"
ROWS_PER_SECOND = 200
STOP_SECONDS_MAX = 30.0
ENTRY_SECONDS = PACE.known_seconds

_written = sa.table("written", sa.column("id", sa.Integer))
_WRITE = Statement[Any](sa.insert(_written))


class Writer:
    """Writes rows to one tenant, in a thread.

    Args:
        environment: The settings of the installation.
        tenant: The name of the tenant.

    Attributes:
        acknowledged: The numbers of the rows that were committed.
        rejected: How many writes were rejected.
        pause: The longest time without a write that was committed, in seconds.
    """

    def __init__(self, environment: Mapping[str, str], tenant: str) -> None:
        self._settings = settings_of(environment)
        self._tenant = tenant
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self.rejected = 0
        self.pause = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while the block runs."""
        thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(STOP_SECONDS_MAX)

    async def _run(self) -> None:
        async with open_services(self._settings, works=False) as services:
            number, tenant, read_at = 0, None, 0.0
            last = next_at = time.monotonic()
            while not self._stop.is_set():
                number += 1
                try:
                    if tenant is None or time.monotonic() > read_at + ENTRY_SECONDS:
                        read_at = time.monotonic()
                        tenant = await tenants.get_by_name(services.catalog, self._tenant)
                    await _write(services, tenant, number)
                except (DatabaseUnavailable, TenantReadOnly):
                    self.rejected += 1
                else:
                    self.acknowledged.append(number)
                    self.pause = max(self.pause, time.monotonic() - last)
                    last = time.monotonic()
                next_at = max(next_at + 1 / ROWS_PER_SECOND, time.monotonic())
                await asyncio.sleep(max(0.001, next_at - time.monotonic()))


async def _write(services: Services, tenant: Tenant, number: int) -> None:
    database = await services.databases.open(tenant, writes=True)
    await database.execute(_WRITE, id=number)
