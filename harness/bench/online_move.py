"""Measure how long an online move rejects writes: `python -m harness.bench.online_move 1000` (MB).

Two servers of PostgreSQL on this machine, on a disk, with their default settings. Another process
writes 200 rows a second to the tenant, as a service does, and notes when each was committed.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from tenantry.backup import moving
from tenantry.backup.jobs import Progress
from tenantry.backup.online import Way
from tenantry.catalog import tenants
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.services import open_services, system_context
from tenantry.settings import Settings
from tenantry.tenant.databases import TenantReadOnly
from tenantry.tenant.users import NewUser
from testkit import raw_sql
from testkit.postgres import find_binaries, own_server

LOGICAL = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_level = logical
"""
ROWS_PER_SECOND = 200
_WRITE = Statement[object](sa.insert(sa.table("written", sa.column("id", sa.Integer))))


def main() -> None:
    """Measure one move, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=int)
    parser.add_argument("--offline", action="store_true", help="for comparison")
    arguments = parser.parse_args()
    way = Way.OFFLINE if arguments.offline else Way.ONLINE
    with (
        tempfile.TemporaryDirectory() as name,
        own_server(_folder(name, "near"), LOGICAL) as near,
        own_server(_folder(name, "far"), LOGICAL) as far,
    ):
        settings = Settings(
            data_dir=Path(name, "data"),
            host="127.0.0.1",
            tenant_server_url=near.url,
            tenant_servers={"far": {"url": far.url}},
            pg_tools=find_binaries(),
        )
        asyncio.run(_measure(settings, arguments.megabytes, way))


def _folder(parent: str, name: str) -> Path:
    Path(parent).chmod(0o755)
    folder = Path(parent, name)
    folder.mkdir()
    return folder


async def _measure(settings: Settings, megabytes: int, way: Way) -> None:
    async with open_services(settings) as services:
        owner = NewUser(email="a@example.com", full_name="A", password="a long password")
        ctx = system_context("benchmark")
        shop = (await services.lifecycle.provision(ctx, name="Shop", owner=owner)).tenant
        url = services.databases.server(shop.server_name).url(shop.database_name)
        raw_sql.run(
            url,
            "CREATE TABLE written (id integer PRIMARY KEY)",
            "CREATE TABLE note (id integer PRIMARY KEY, body text NOT NULL)",
            "INSERT INTO note SELECT i, repeat(md5(i::text), 29) "
            f"FROM generate_series(1, {megabytes * 1000}) AS i",
            "CHECKPOINT",
        )
        ((size,),) = raw_sql.rows(url, "SELECT pg_database_size(current_database())")
        here, there = multiprocessing.get_context("spawn").Pipe()
        writer = multiprocessing.get_context("spawn").Process(
            target=_write, args=(settings, shop.id, there)
        )
        writer.start()
        await asyncio.to_thread(here.recv)
        began = time.monotonic()
        moved = await moving.move(
            ctx, services.copying, shop, server_name="far", progress=Progress(), way=way
        )
        seconds = time.monotonic() - began
        here.send(None)
        numbers, pause = await asyncio.to_thread(here.recv)
        writer.join()
        new = services.databases.server("far").url(moved.tenant.database_name)
        stored = {row[0] for row in raw_sql.rows(new, "SELECT id FROM written")}
    print(
        f"{size / 1e6:.0f} MB in {seconds:.1f} s; writes rejected for "
        f"{moved.rejected_seconds:.2f} s, {pause:.2f} s for a client; {len(numbers)} writes "
        f"acknowledged, {len(set(numbers) - stored)} lost"
    )


def _write(settings: Settings, tenant_id: UUID, pipe: "Connection[object, object]") -> None:
    pipe.send(asyncio.run(_write_until(settings, tenant_id, pipe)))


async def _write_until(
    settings: Settings, tenant_id: UUID, pipe: "Connection[object, object]"
) -> tuple[list[int], float]:
    """Write until a message arrives; return what was committed, and the longest pause."""
    numbers: list[int] = []
    number, pause, began = 0, 0.0, time.monotonic()
    last = began
    async with open_services(settings, works=False) as services:
        pipe.send(None)
        while not pipe.poll():
            number += 1
            try:
                tenant = await tenants.get(services.catalog, tenant_id)
                database = await services.databases.open(tenant, writes=True)
                await database.execute(_WRITE, id=number)
            except (DatabaseUnavailable, TenantReadOnly):
                pass
            else:
                numbers.append(number)
                pause, last = max(pause, time.monotonic() - last), time.monotonic()
            await asyncio.sleep(max(0.0, began + number / ROWS_PER_SECOND - time.monotonic()))
    return numbers, pause


if __name__ == "__main__":
    main()
