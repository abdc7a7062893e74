"""Databases for shapes: copies of one that plain Alembic finds, and of one that is a tenant's."""

import asyncio
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from testkit.postgres import copy_database
from tests.corpus import ours
from tests.corpus.shape import SETUP


class FileLab:
    """Makes SQLite files."""

    engine = "sqlite"

    def __init__(self, folder: Path, threads: Executor) -> None:
        self._folder = folder
        self._plain = folder / "plain.db"
        self._tenant = folder / "tenant.db"
        for path in (self._plain, self._tenant):
            path.touch()
        asyncio.run(ours.make_tenant(f"sqlite:///{self._tenant}", threads))
        for path in (self._plain, self._tenant):
            self._run(path, SETUP["sqlite"])

    @contextmanager
    def plain(self, setup: str) -> Iterator[str]:
        """Yield the URL of a database of a team; *setup* has run in it."""
        with self._copied(self._plain, setup) as url:
            yield url

    @contextmanager
    def tenant(self, setup: str) -> Iterator[str]:
        """Yield the URL of a tenant's database, otherwise the same."""
        with self._copied(self._tenant, setup) as url:
            yield url

    @contextmanager
    def _copied(self, template: Path, setup: str) -> Iterator[str]:
        path = self._folder / f"{secrets.token_hex(8)}.db"
        shutil.copyfile(template, path)
        if setup:
            self._run(path, setup)
        try:
            yield f"sqlite:///{path}"
        finally:
            for one in self._folder.glob(f"{path.name}*"):
                one.unlink()

    @staticmethod
    def _run(path: Path, setup: str) -> None:
        with closing(sqlite3.connect(path)) as file:
            file.executescript(setup)


class ServerLab:
    """Makes databases on a PostgreSQL server."""

    engine = "postgresql"

    def __init__(self, server_url: str, threads: Executor) -> None:
        self._base = server_url.rpartition("/")[0]
        self._server = psycopg.connect(server_url, autocommit=True)
        self._plain, self._tenant = (f"test_{kind}_{secrets.token_hex(4)}" for kind in "pt")
        for name in (self._plain, self._tenant):
            self._create(name, "template0")
        asyncio.run(ours.make_tenant(f"{self._base}/{self._tenant}", threads))
        for name in (self._plain, self._tenant):
            self._run(name, SETUP["postgresql"])

    def close(self) -> None:
        """Drop the databases that were copied."""
        for name in (self._plain, self._tenant):
            self._drop(name)
        self._server.close()

    @contextmanager
    def plain(self, setup: str) -> Iterator[str]:
        """Yield the URL of a database of a team; *setup* has run in it."""
        with self._copied(self._plain, setup) as url:
            yield url

    @contextmanager
    def tenant(self, setup: str) -> Iterator[str]:
        """Yield the URL of a tenant's database, otherwise the same."""
        with self._copied(self._tenant, setup) as url:
            yield url

    @contextmanager
    def _copied(self, template: str, setup: str) -> Iterator[str]:
        name = f"test_{secrets.token_hex(8)}"
        self._create(name, template)
        try:
            if setup:
                self._run(name, setup)
            yield f"{self._base}/{name}"
        finally:
            self._drop(name)

    def _create(self, name: str, template: str) -> None:
        copy_database(self._server, name, template=template)

    def _drop(self, name: str) -> None:
        self._server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def _run(self, name: str, setup: str) -> None:
        with psycopg.connect(f"{self._base}/{name}", autocommit=True) as connection:
            connection.execute(setup.encode())


Lab = FileLab | ServerLab
