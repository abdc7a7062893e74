"""A PostgreSQL server of our own that keeps what it has said it keeps."""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from testkit.postgres import create_database, own_server

# Of the defaults only what more than one process with its pools needs.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
"""
# The processes of the server read the new settings after `pg_reload_conf` has returned.
RELOAD_SECONDS_MAX = 10.0
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class NotDurable(Exception):
    """The server would lose commits, so its speed says nothing."""


@contextmanager
def durable_server(folder: Path, settings: str = "") -> Iterator[str]:
    """Yield the URL of a superuser's database, on the cores of this process.

    Args:
        folder: On a disk; it must not be there yet, and is gone after the block.
        settings: More of them, as in ``postgresql.conf``.

    Raises:
        PostgresMissing: There are no binaries.
    """
    folder.mkdir()
    with own_server(folder, SETTINGS + settings) as server:
        yield server.url


@contextmanager
def careless(url: str) -> Iterator[None]:
    """Let the server at *url* be quick instead of durable, while things are put into place.

    Raises:
        NotDurable: It does not become durable again.
    """
    asyncio.run(_set(url, "off"))
    try:
        yield
    finally:
        asyncio.run(_set(url, "on"))


def new_catalog(server_url: str) -> str:
    """Make an empty database for a catalog, and return its URL."""
    return create_database(server_url, f"catalog_{secrets.token_hex(6)}")


async def _set(url: str, value: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for name in DURABLE:
            await connection.execute(f"ALTER SYSTEM SET {name} = {value}")
        await connection.execute("SELECT pg_reload_conf()")
        if value == "on":
            # What was written carelessly is on the disk before anything is measured.
            await connection.execute("CHECKPOINT")
            os.sync()
    finally:
        await connection.close()
    if value == "on":
        await _check_durable(url)


async def _check_durable(url: str) -> None:
    ends = time.monotonic() + RELOAD_SECONDS_MAX
    while (found := await _settings(url)) != DURABLE:
        if time.monotonic() > ends:
            raise NotDurable(f"the settings are {found}")
        await asyncio.sleep(0.1)


async def _settings(url: str) -> dict[str, str]:
    connection = await asyncpg.connect(url)
    try:
        return {name: await connection.fetchval(f"SHOW {name}") for name in DURABLE}
    finally:
        await connection.close()
