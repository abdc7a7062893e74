"""The limit: the bare driver, a version row that is read, one script that is written already."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import uvloop

from harness.fleet.history import BEHIND, script
from tenantry.db.urls import sqlite_path

READ = "SELECT version_num FROM alembic_version"


def on_postgresql(urls: Sequence[str], *, at_once: int) -> float:
    """Return the seconds that *urls* take over asyncpg."""
    text = script()

    async def migrate(url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            if await connection.fetchval(READ) == BEHIND:
                await connection.execute(text)  # several statements at once are one transaction
        finally:
            await connection.close()

    async def work() -> float:
        left = iter(urls)

        async def one_after_another() -> None:
            for url in left:
                await migrate(url)

        began = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(at_once)))
        return time.perf_counter() - began

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())


def on_sqlite(urls: Sequence[str], *, at_once: int) -> float:
    """Return the seconds that *urls* take over sqlite3, in as many threads as are *at_once*."""
    statements = script().split(";\n")

    def migrate(url: str) -> None:
        file = sqlite3.connect(f"file:{sqlite_path(url)}?mode=rw", uri=True, isolation_level=None)
        try:
            if file.execute(READ).fetchone()[0] == BEHIND:
                file.execute("BEGIN IMMEDIATE")
                for sql in statements:
                    file.execute(sql)
                file.execute("COMMIT")
        finally:
            file.close()

    with ThreadPoolExecutor(at_once) as threads:
        began = time.perf_counter()
        for _ in threads.map(migrate, urls):
            pass
        return time.perf_counter() - began
