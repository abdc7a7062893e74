"""The tenants that are migrated again and again: made once, and put back from a template."""

import asyncio
import os
import secrets
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from harness import postgres
from harness.fleet.history import BEHIND, HAS_BOOKMARKS, HEAD, HISTORY, IS_AT_HEAD, script
from tenantry.db.sqlite.files import SIDE_FILES
from tenantry.db.urls import sqlite_path

AT_ONCE = 4
TOUCH = "SELECT version_num FROM alembic_version"
# So that dbmate finds the history that Alembic has made.
DBMATE = (
    "CREATE TABLE schema_migrations (version VARCHAR NOT NULL PRIMARY KEY)",
    *(f"INSERT INTO schema_migrations VALUES ('{step.id}')" for step in HISTORY),
)
DBMATE_AT_HEAD = "INSERT INTO schema_migrations VALUES ('0013'), ('0014')"


class NotMigrated(Exception):
    """A contender has not done what it was measured for."""


@dataclass(frozen=True)
class Tenants(ABC):
    """Databases that are all alike.

    Attributes:
        urls: Of the databases, in the order of the catalog.
    """

    urls: Sequence[str]

    @abstractmethod
    def reset(self, count: int, *, at_head: bool = False) -> None:
        """Put the first *count* back to where there is something pending, or nothing.

        Each is a new copy with one earlier connection, and all of it is on the disk.
        """

    @abstractmethod
    def query(self, count: int, *queries: str) -> list[list[object]]:
        """Return what each of *queries* finds in each of the first *count*."""

    def check_at_head(self, count: int) -> None:
        """Check that the first *count* are at the head.

        Raises:
            NotMigrated: One of them is not.
        """
        wrong = [one for one in self.query(count, IS_AT_HEAD, HAS_BOOKMARKS) if one != [True, 0]]
        if wrong:
            raise NotMigrated(f"{len(wrong)} of {count} tenants are not at the head: {wrong[0]}")


@dataclass(frozen=True)
class PostgresTenants(Tenants):
    """Databases of one server.

    Attributes:
        server_url: Of a superuser.
        templates: The databases to copy, with two pending revisions and with none.
    """

    server_url: str
    templates: tuple[str, str]

    def reset(self, count: int, *, at_head: bool = False) -> None:
        """See `Tenants.reset`."""
        names = [_name(url) for url in self.urls[:count]]
        with postgres.careless(self.server_url):
            copy_databases(self.server_url, self.templates[at_head], names)
            self.query(count, TOUCH)

    def query(self, count: int, *queries: str) -> list[list[object]]:
        """See `Tenants.query`."""

        async def ask(url: str) -> list[object]:
            connection = await asyncpg.connect(url)
            try:
                return [await connection.fetchval(query) for query in queries]
            finally:
                await connection.close()

        async def all_() -> list[list[object]]:
            gate = asyncio.Semaphore(AT_ONCE)

            async def one(url: str) -> list[object]:
                async with gate:
                    return await ask(url)

            return await asyncio.gather(*(one(url) for url in self.urls[:count]))

        return asyncio.run(all_())


@dataclass(frozen=True)
class SqliteTenants(Tenants):
    """Files.

    Attributes:
        templates: The files to copy, with two pending revisions and with none.
    """

    templates: tuple[Path, Path]

    def reset(self, count: int, *, at_head: bool = False) -> None:
        """See `Tenants.reset`."""
        for url in self.urls[:count]:
            path = _path(url)
            path.parent.mkdir(parents=True, exist_ok=True)
            for suffix in SIDE_FILES:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            shutil.copyfile(self.templates[at_head], path)
        self.query(count, TOUCH)
        os.sync()

    def query(self, count: int, *queries: str) -> list[list[object]]:
        """See `Tenants.query`."""

        def ask(url: str) -> list[object]:
            with closing(sqlite3.connect(f"file:{_path(url)}?mode=rw", uri=True)) as file:
                return [file.execute(query).fetchone()[0] for query in queries]

        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(ask, self.urls[:count]))


def copy_databases(server_url: str, template: str, names: Sequence[str]) -> None:
    """Create each of *names* again, as a copy of *template*, a few at once."""

    async def copy_all() -> None:
        left = iter(names)

        async def work() -> None:
            connection = await asyncpg.connect(server_url)
            try:
                for name in left:
                    await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
                    # With fsync off the quickest by far, and it leaves no WAL to be written.
                    sql = f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY'
                    await connection.execute(sql)
            finally:
                await connection.close()

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(copy_all())


def make_templates(url: str, server_url: str | None, folder: Path) -> Callable[..., Tenants]:
    """Return what makes `Tenants` that are copies of the database at *url*, at `BEHIND`.

    Args:
        url: Of a tenant without connections.
        server_url: Of the superuser on PostgreSQL.
        folder: For the templates of SQLite.
    """
    if server_url is None:
        behind, head = folder / "behind.db", folder / "head.db"
        with closing(sqlite3.connect(_path(url))) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copyfile(_path(url), behind)
        _run_on_file(behind, *DBMATE)
        shutil.copyfile(behind, head)
        _run_on_file(head, *script().split(";\n"), DBMATE_AT_HEAD)
        return lambda urls: SqliteTenants(urls, (behind, head))
    # One server may hold several fleets.
    mark = secrets.token_hex(6)
    behind_name, head_name = f"behind_{mark}", f"head_{mark}"
    copy_databases(server_url, _name(url), [behind_name])
    _run_on_database(server_url, behind_name, *DBMATE)
    copy_databases(server_url, behind_name, [head_name])
    _run_on_database(server_url, head_name, script(), DBMATE_AT_HEAD)
    return lambda urls: PostgresTenants(urls, server_url, (behind_name, head_name))


def _run_on_file(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for sql in statements:
            file.execute(sql)
        # The file alone is copied, so it must hold everything.
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _run_on_database(server_url: str, name: str, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(f"{server_url.rpartition('/')[0]}/{name}")
        try:
            for sql in statements:
                await connection.execute(sql)
        finally:
            await connection.close()

    asyncio.run(run())


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _path(url: str) -> Path:
    path = sqlite_path(url)
    assert path is not None
    return path


assert (BEHIND, HEAD) == ("0012", "0014")
