"""Measure how long an online move rejects writes: `python -m harness.bench.online_move 1000` (MB).

Two servers of PostgreSQL on this machine, on a disk, with their default settings. Another process
writes 200 rows a second to the tenant, as a service does, and notes when each was committed.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from harness.writer import TABLE, Writer
from tenantry.backup import moving
from tenantry.backup.online import Way
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import find_binaries, own_server
from testkit.programs import variables

LOGICAL = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_level = logical
"""


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
            TABLE,
            "CREATE TABLE note (id integer PRIMARY KEY, body text NOT NULL)",
            "INSERT INTO note SELECT i, repeat(md5(i::text), 29) "
            f"FROM generate_series(1, {megabytes * 1000}) AS i",
            "CHECKPOINT",
        )
        ((size,),) = raw_sql.rows(url, "SELECT pg_database_size(current_database())")
        here, there = multiprocessing.get_context("spawn").Pipe()
        writer = multiprocessing.get_context("spawn").Process(
            target=_write, args=(variables(settings), shop.name, there)
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


def _write(environment: Mapping[str, str], tenant: str, pipe: "Connection[object, object]") -> None:
    """Write until a message arrives; send what was committed, and the longest pause."""
    writer = Writer(environment, tenant)
    with writer.writing():
        while not writer.acknowledged:
            time.sleep(0.01)
        pipe.send(None)
        pipe.recv()
    pipe.send((writer.acknowledged, writer.pause))


if __name__ == "__main__":
    main()
