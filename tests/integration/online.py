"""An installation with two servers of PostgreSQL that allow a move online."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tenantry.backup import dumps, moving
from tenantry.backup.online import MoveLimits, Way
from tenantry.catalog import jobs as job_rows
from tenantry.catalog import tenant_list, tenants
from tenantry.catalog.job_states import Job
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying import replication
from tenantry.db.servers import Server as TenantServer
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services
from tenantry.tenant.databases import TenantReadOnly
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import SETTINGS, Server, own_server

NEAR, FAR = "default", "far"
LOGICAL = f"{SETTINGS}\nwal_level = logical\nmax_replication_slots = 4\n"
ROWS_PER_SECOND = 200
# A busy machine makes the pause longer; that is no reason to give a move up.
PATIENT = MoveLimits(online_fence_seconds=60.0, finish_seconds=60.0)
WRITTEN = "CREATE TABLE written (id INTEGER PRIMARY KEY)"
_WRITE = Statement[Any](sa.insert(sa.table("written", sa.column("id", sa.Integer))))


@contextmanager
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Yield two servers with `wal_level = logical`."""
    with own_server(settings=LOGICAL) as near, own_server(settings=LOGICAL) as far:
        yield near, far


async def move(
    services: Services,
    tenant: Tenant,
    *,
    to: str = FAR,
    way: Way = Way.ONLINE,
    limits: MoveLimits = PATIENT,
) -> moving.Moved:
    return await moving.move(
        system_context("test"),
        services.copying,
        tenant,
        server_name=to,
        progress=Progress(),
        way=way,
        limits=limits,
    )


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


async def newest_job(services: Services) -> Job:
    return (await job_rows.page(services.catalog, Window(1, 1))).items[0]


async def slots(server: TenantServer) -> list[tuple[str, str]]:
    """Return the replication slots of moves on a server, each with its database."""
    async with dumps.connected(server.url("postgres")) as raw:
        return await replication.left(raw)


async def left_over(services: Services) -> list[str]:
    """Return what moves have left: databases without a tenant, slots and publications."""
    listed = {
        one.database_name for one in (await tenant_list.page(services.catalog, Window(1, 9))).items
    }
    found = []
    for name in services.databases.server_names:
        server = services.databases.server(name)
        names = [one for one in await server.names("tenantry_") if "template" not in one]
        found += [one for one in names if one not in listed]
        found += [slot for slot, _ in await slots(server)]
        for one in names:
            found += [
                row[0]
                for row in raw_sql.rows(server.url(one), "SELECT pubname FROM pg_publication")
            ]
    return found


async def is_writable(services: Services, tenant: Tenant) -> bool:
    found = await tenants.get(services.catalog, tenant.id)
    database = await services.databases.open(found, writes=True)
    await database.execute(_WRITE, id=-1)
    return not found.is_read_only


@dataclass
class Acknowledged:
    """What a client has written.

    Attributes:
        numbers: The rows that were committed.
        rejected: How many were not.
        pause_seconds: The longest time between two commits.
    """

    numbers: list[int] = field(default_factory=list)
    rejected: int = 0
    pause_seconds: float = 0.0

    async def reach(self, count: int) -> None:
        """Wait until so many rows were committed."""
        while len(self.numbers) < count:  # noqa: ASYNC110 - it changes in another task
            await asyncio.sleep(0.05)


@asynccontextmanager
async def writing(services: Services, tenant: Tenant) -> AsyncIterator[Acknowledged]:
    """Write 200 rows a second while the block runs, as requests do."""
    found = Acknowledged()

    async def write() -> None:
        number, last = 0, time.monotonic()
        while True:
            number += 1
            with suppress(DatabaseUnavailable, TenantReadOnly):
                known = await tenants.get(services.catalog, tenant.id)
                database = await services.databases.open(known, writes=True)
                await database.execute(_WRITE, id=number)
                found.numbers.append(number)
                now = time.monotonic()
                found.pause_seconds = max(found.pause_seconds, now - last)
                last = now
            found.rejected = number - len(found.numbers)
            await asyncio.sleep(1 / ROWS_PER_SECOND)

    task = asyncio.create_task(write())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
