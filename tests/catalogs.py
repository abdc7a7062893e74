"""A catalog of each engine that is created once, empty, and then copied for each test.

Its revisions take a tenth of a second, and half of the tests need a catalog of their own. Each copy
has an identity of its own, by which it knows its databases on a server that tests share.
"""

import asyncio
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from psycopg.errors import DuplicateDatabase

from tenantry.catalog.upgrading import upgrade_catalog
from tenantry.db.urls import sqlite_path
from tenantry.kit import private
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.postgres import create_database, drop_database

# The tests below the doors begin with a catalog, unless their module is about how it is created.
BELOW_THE_DOORS = "tests/integration/"
FROM_NOTHING = {
    "test_attached_databases",
    "test_catalog_failures",
    "test_catalog_start",
    "test_file_modes",
    "test_fleet_state",
    "test_rolling_upgrade",
    "test_storage",
}
LIMITS = TimeLimits(
    connect_seconds=20.0, deadline_seconds=60.0, lock_ms=5_000, lock_pause_seconds=0.01
)


def begins_with_one(test: str) -> bool:
    """Return whether the test with this id begins with a catalog if it has nothing but settings."""
    file = test.partition("::")[0]
    module = file.rpartition("/")[2].removesuffix(".py")
    return file.startswith(BELOW_THE_DOORS) and module not in FROM_NOTHING


class EmptyCatalog(Protocol):
    """A catalog to copy."""

    def copy_to(self, settings: Settings) -> None:
        """Copy it to where *settings* have theirs, unless there is one."""


class FileCatalog:
    """An empty catalog on SQLite, in *folder*."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "catalog.db"
        self._path.touch()
        _create(f"sqlite:///{self._path}")

    def copy_to(self, settings: Settings) -> None:
        """See `EmptyCatalog`."""
        path = sqlite_path(settings.catalog)
        if path is None or path.exists():
            return
        private.make_folder(path.parent)
        shutil.copyfile(self._path, path)
        path.chmod(0o600)
        _identify(settings.catalog)


class ServerCatalog:
    """An empty catalog on the PostgreSQL server at *server_url*."""

    def __init__(self, server_url: str) -> None:
        self._server = server_url
        # A name that no test cleans up.
        self._name = f"original_{secrets.token_hex(4)}_empty"
        _create(create_database(server_url, self._name))

    def copy_to(self, settings: Settings) -> None:
        """See `EmptyCatalog`."""
        with suppress(DuplicateDatabase):
            name = settings.catalog.rpartition("/")[2]
            _identify(create_database(self._server, name, template=self._name))

    def drop(self) -> None:
        """Drop the database."""
        drop_database(self._server, self._name)


def _create(url: str) -> None:
    async def create() -> None:
        with ThreadPoolExecutor(1) as threads:
            await upgrade_catalog(url, Migrator(threads, LIMITS))

    # The thread of the tests has an event loop of its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, create()).result()


def _identify(url: str) -> None:
    raw_sql.run(url, f"UPDATE catalog SET id = '{uuid4().hex}'")
