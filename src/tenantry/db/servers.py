"""Servers: where databases are made, copied, opened and dropped.

A server is a PostgreSQL server, or a folder of SQLite files. Names of databases that are
made here are generated (`checked_name`); one that was adopted keeps its own, so every name
is quoted.
"""

import asyncio
import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from tenantry.db import files, inspection, postgres
from tenantry.db.database import Budget, Database
from tenantry.db.sessions import (
    STATEMENT_SECONDS_DEFAULT,
    Connection,
    DatabaseUnavailable,
    Session,
)
from tenantry.db.sqlite import BUSY_TIMEOUT_SECONDS, SqliteFile
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path, with_database

# One for each file: SQLite has one writer, and threads that wait for its lock only cost.
SQLITE_CONNECTIONS_MAX = 1
POSTGRESQL_CONNECTIONS_MAX = 4

CREATE_SECONDS_MAX = 60.0

# PostgreSQL logs 32 values of a sequence ahead, and counts in the sequence how many are left.
# CREATE DATABASE copies that count, but not its place in the log: after a crash of the server
# the copy would give the same values again. `setval` sets the count to zero, so that the first
# value that a copy gives is logged.
# Source: SEQ_LOG_VALS in PostgreSQL's src/backend/commands/sequence.c
_RESET_SEQUENCES = """
DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'S' LOOP
        EXECUTE format('SELECT setval(%L, last_value, is_called) FROM %s', name, name);
    END LOOP;
END $$
"""

# PostgreSQL cuts a longer name, with a mere notice.
NAME_BYTES_MAX = 63
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def checked_name(name: str) -> str:
    """Return *name*, which must be one that was generated."""
    assert _NAME.fullmatch(name), f"no name of ours: {name!r}"
    return name


def quoted(name: str) -> str:
    """Return *name* as an identifier in SQL. PostgreSQL allows any character but NUL in it."""
    assert 0 < len(name.encode()) <= NAME_BYTES_MAX, f"no name at all: {name!r}"
    assert "\0" not in name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class Server(ABC):
    """Holds databases by name, and the connections of this process to them.

    Attributes:
        budget: Of those connections.
        timeout_seconds: How long to wait for a connection.
    """

    budget: Budget
    timeout_seconds: float

    @abstractmethod
    def url(self, name: str) -> str:
        """Return where the database *name* is."""

    @abstractmethod
    def open(self, name: str) -> Database[Any]:
        """Return the database *name*, to be closed by the caller. Nothing is connected yet."""

    @abstractmethod
    async def create(self, name: str) -> None:
        """Make the empty database *name*.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or refuses.
        """

    @abstractmethod
    async def copy(self, template: str, name: str) -> bool:
        """Make the database *name* as a copy of *template*; return False if there is none.

        It is durable when it was filled.
        """

    @abstractmethod
    def filling(self, name: str) -> AbstractAsyncContextManager[Session[Any]]:
        """Open a session on the database *name*, that was just made and that nobody else has.

        What it has written is durable when the block has ended.
        """

    @abstractmethod
    async def publish(self, draft: str, template: str) -> None:
        """Make the database *draft* the *template* that `copy` takes; nobody may use it else.

        If somebody was quicker, *draft* is dropped.
        """

    @abstractmethod
    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""

    @abstractmethod
    async def drop(self, name: str) -> None:
        """Drop the database *name*, whoever is connected; it need not be there."""

    @abstractmethod
    async def check_listed(self, database: str) -> None:
        """Check what the server says of a database that was made elsewhere.

        Args:
            database: Its name; or the path of its file.

        Raises:
            DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner: It cannot be adopted.
            DatabaseUnavailable: The server cannot be reached.
        """

    @abstractmethod
    def foreign_url(self, database: str) -> str:
        """Return the URL of a database that was made elsewhere."""

    @abstractmethod
    def adopted_name(self, database: str, generated: str) -> str:
        """Return the name that *database* has here once it is taken in: its own, or *generated*."""

    @abstractmethod
    async def take_in(self, database: str, name: str) -> None:
        """Have *database*, which was made elsewhere, here as *name*.

        Raises:
            Exception: Whatever the driver raises.
        """


class PostgresServer(Server):
    """A PostgreSQL server, through a role that may create databases.

    Args:
        url: Of its maintenance database.
        budget: The connections of this process to it.
        timeout_seconds: How long to wait for a connection.
        statement_seconds: The deadline of each statement of a request.
    """

    def __init__(
        self,
        url: str,
        budget: Budget,
        *,
        timeout_seconds: float,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
    ) -> None:
        self._url = url
        self.budget = budget
        self.timeout_seconds = timeout_seconds
        self._statement_seconds = statement_seconds

    def url(self, name: str) -> str:
        """Return where the database *name* is."""
        return with_database(self._url, name)

    def open(self, name: str) -> Database[Any]:
        """Return the database *name*."""
        return Database(
            partial(self._connect, name),
            self.budget,
            POSTGRESQL_CONNECTIONS_MAX,
            wait_seconds_max=self.timeout_seconds,
        )

    async def create(self, name: str) -> None:
        """Make the empty database *name*."""
        # template0, because one idle session on template1 would hold this up.
        async with self._maintenance() as raw:
            await raw.execute(
                f"CREATE DATABASE {_generated(name)} TEMPLATE template0 ENCODING 'UTF8'"
            )

    async def copy(self, template: str, name: str) -> bool:
        """Make the database *name* as a copy of *template*; return False if there is none."""
        async with self._maintenance() as raw:
            try:
                await raw.execute(
                    f"CREATE DATABASE {_generated(name)} TEMPLATE {_generated(template)}"
                )
            except asyncpg.InvalidCatalogNameError:
                return False
        return True

    @contextlib.asynccontextmanager
    async def filling(self, name: str) -> AsyncIterator[Session[Any]]:
        """Open a session on the database *name*, beside the budget."""
        connection = await self._connect(name)
        try:
            yield connection
        finally:
            await connection.close()

    async def publish(self, draft: str, template: str) -> None:
        """Make the database *draft* the *template*."""
        async with self._connected(self.url(draft)) as raw:
            await raw.execute(_RESET_SEQUENCES)
        async with self._maintenance() as raw:
            await raw.execute(f"ALTER DATABASE {_generated(draft)} ALLOW_CONNECTIONS false")
            try:
                await raw.execute(
                    f"ALTER DATABASE {_generated(draft)} RENAME TO {_generated(template)}"
                )
            except asyncpg.DuplicateDatabaseError:
                await raw.execute(f"DROP DATABASE {_generated(draft)}")

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""
        async with self._maintenance() as raw:
            sql = "SELECT datname FROM pg_database WHERE starts_with(datname, $1)"
            return [str(row[0]) for row in await raw.fetch(sql, checked_name(prefix))]

    async def drop(self, name: str) -> None:
        """Drop the database *name*."""
        async with self._maintenance() as raw:
            await raw.execute(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")

    async def check_listed(self, database: str) -> None:
        """Check what the server says of the database that is called *database*."""
        async with self._maintenance() as raw:
            await inspection.check_listed(raw, database)

    def foreign_url(self, database: str) -> str:
        """Return the URL of the database that is called *database*."""
        return self.url(database)

    def adopted_name(self, database: str, generated: str) -> str:
        """Return its own: it stays where it is."""
        del generated
        return database

    async def take_in(self, database: str, name: str) -> None:
        """Do nothing: it is here."""

    def _maintenance(
        self,
    ) -> "AbstractAsyncContextManager[asyncpg.Connection[asyncpg.Record]]":
        return self._connected(self._url)

    async def _connect(self, name: str) -> Connection:
        return await postgres.connect(
            self.url(name),
            timeout_seconds=self.timeout_seconds,
            statement_seconds=self._statement_seconds,
        )

    @contextlib.asynccontextmanager
    async def _connected(self, url: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
        try:
            raw = await asyncpg.connect(
                url,
                timeout=self.timeout_seconds,
                command_timeout=CREATE_SECONDS_MAX,
                server_settings={"application_name": "tenantry", "client_min_messages": "warning"},
            )
            try:
                yield raw
            finally:
                await raw.close(timeout=postgres.CLOSE_SECONDS_MAX)
        except (asyncpg.PostgresError, *postgres.UNAVAILABLE) as error:
            raise DatabaseUnavailable from error


class SqliteFolder(Server):
    """A folder of SQLite files, in two levels of folders so that 100,000 are no burden.

    Args:
        folder: Made when it is not there.
        budget: The files that this process keeps open.
        synchronous: ``FULL`` or ``NORMAL``.
        statement_seconds: The deadline of each statement of a request.
    """

    timeout_seconds = BUSY_TIMEOUT_SECONDS

    def __init__(
        self,
        folder: Path,
        budget: Budget,
        *,
        synchronous: str,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
    ) -> None:
        self._folder = folder
        self.budget = budget
        self._synchronous = synchronous
        self._statement_seconds = statement_seconds

    def path(self, name: str) -> Path:
        """Return the file of the database *name*."""
        # The end of a UUIDv7 is random; its beginning is the time.
        name = checked_name(name)
        return self._folder / name[-2:] / name[-4:-2] / f"{name}.db"

    def url(self, name: str) -> str:
        """Return where the database *name* is."""
        return f"{SQLITE_PREFIX}{self.path(name)}"

    def open(self, name: str) -> Database[Any]:
        """Return the database *name*."""
        file = SqliteFile(
            self.path(name),
            synchronous=self._synchronous,
            statement_seconds=self._statement_seconds,
        )
        return Database(file.connect, self.budget, SQLITE_CONNECTIONS_MAX)

    async def create(self, name: str) -> None:
        """Make the empty database *name*."""
        await asyncio.to_thread(files.create, self.path(name))

    async def copy(self, template: str, name: str) -> bool:
        """Make the database *name* as a copy of *template*; return False if there is none."""
        return await asyncio.to_thread(files.copy, self.path(template), self.path(name))

    @contextlib.asynccontextmanager
    async def filling(self, name: str) -> AsyncIterator[Session[Any]]:
        """Open a session on the database *name*, and take care of the whole file at the end."""
        path = self.path(name)
        connection = await SqliteFile(path, synchronous="OFF").connect()
        try:
            yield connection
        finally:
            await connection.close()
        await asyncio.to_thread(files.sync, path)

    async def publish(self, draft: str, template: str) -> None:
        """Make the database *draft* the *template*."""
        await asyncio.to_thread(files.move, self.path(draft), self.path(template))

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""
        pattern = f"*/*/{checked_name(prefix)}*.db"
        found = await asyncio.to_thread(lambda: list(self._folder.glob(pattern)))
        return [path.stem for path in found]

    async def drop(self, name: str) -> None:
        """Drop the database *name*."""
        await asyncio.to_thread(files.remove, self.path(name))

    async def check_listed(self, database: str) -> None:
        """Do nothing: a folder has no list."""

    def foreign_url(self, database: str) -> str:
        """Return the URL of the file whose path is *database*."""
        return f"{SQLITE_PREFIX}{database}"

    def adopted_name(self, database: str, generated: str) -> str:
        """Return *generated*: it is a copy."""
        del database
        return generated

    async def take_in(self, database: str, name: str) -> None:
        """Copy the file whose path is *database*."""
        path = self.path(name)
        await inspection.copy_in_thread(Path(database), path)
        await asyncio.to_thread(files.sync_folder, path.parent)


def open_server(
    url: str,
    *,
    connections_max: int,
    timeout_seconds: float,
    synchronous: str,
    statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
) -> Server:
    """Return the server, or the folder, at *url*."""
    folder = sqlite_path(url)
    budget = Budget(connections_max)
    if folder is not None:
        return SqliteFolder(
            folder, budget, synchronous=synchronous, statement_seconds=statement_seconds
        )
    return PostgresServer(
        url, budget, timeout_seconds=timeout_seconds, statement_seconds=statement_seconds
    )


def single_connector(
    url: str,
    *,
    connections_max: int,
    timeout_seconds: float,
    synchronous: str,
    statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
) -> tuple[Callable[[], Awaitable[Connection]], int]:
    """Return how to connect to the one database at *url*, and how often at once."""
    path = sqlite_path(url)
    if path is not None:
        file = SqliteFile(path, synchronous=synchronous, statement_seconds=statement_seconds)
        return file.connect, SQLITE_CONNECTIONS_MAX
    return partial(
        postgres.connect,
        url,
        timeout_seconds=timeout_seconds,
        statement_seconds=statement_seconds,
    ), connections_max


def _generated(name: str) -> str:
    return quoted(checked_name(name))
