"""Open a database of any engine, and read its tables row by row.

No batch of rows is in memory, because one value may have 1 GB. These functions block: call them in
a thread.
"""

import contextlib
import math
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.adapt import Loader
from psycopg.conninfo import make_conninfo
from sqlalchemy.pool import NullPool

from tenantry.db.postgres.session_settings import COPY_IN_TRANSACTION
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import connections as sqlite
from tenantry.db.urls import sqlite_path
from tenantry.kit import postgres_urls
from tenantry.kit.stopping import Stop

LOCK_SECONDS = 30.0
_NO_LOADERS: Mapping[str, type[Loader]] = MappingProxyType({})


@dataclass(frozen=True)
class OpenedDatabase:
    """A database in a transaction.

    Attributes:
        connection: Reads its schema.
        raw: The connection of the driver.
        is_file: Whether it is SQLite.
    """

    connection: sa.Connection
    raw: Any
    is_file: bool

    def rows(
        self,
        table: str,
        columns: Collection[str],
        *,
        schema: str | None = None,
        as_text: Collection[str] = (),
    ) -> Generator[Any, None, None]:
        """Yield the rows of a table.

        Args:
            table: Its name.
            columns: Those to read.
            schema: On PostgreSQL. Then only the rows are read that this table itself stores, and
                not those of its partitions.
            as_text: The columns whose values PostgreSQL returns as text.
        """
        names = [f"{sqlite.quoted(one)}{'::text' * (one in as_text)}" for one in columns]
        source = sqlite.quoted(table)
        if schema is not None:
            source = f"ONLY {sqlite.quoted(schema)}.{source}"
        query = f"SELECT {', '.join(names)} FROM {source}"  # noqa: S608 - quoted
        with contextlib.closing(self.raw.cursor()) as cursor:
            yield from cursor.execute(query) if self.is_file else cursor.stream(query)


@contextmanager
def opened(
    url: str,
    stop: Stop,
    *,
    connect_seconds: float,
    is_read_only: bool = True,
    text_factory: Callable[[bytes], object] = bytes.decode,
    loaders: Mapping[str, type[Loader]] = _NO_LOADERS,
) -> Iterator[OpenedDatabase]:
    """Open a database in a transaction, which reads one snapshot if it is read-only.

    Args:
        url: Of the database.
        stop: Ends the wait for a server.
        connect_seconds: How long to wait for the connection.
        is_read_only: Whether nothing is written.
        text_factory: Returns a text of a SQLite file. The error of sqlite3 for invalid text is that
            of a broken database, and contains the text.
        loaders: Load values of PostgreSQL, by the name of the type.

    Raises:
        DatabaseUnavailable: It cannot be read or written.
        Stopped: *stop* was set.
    """
    path = sqlite_path(url)
    try:
        with contextlib.ExitStack() as stack:
            if path is None:
                raw: Any = _connect(url, connect_seconds, loaders)
                stack.enter_context(contextlib.closing(raw))
                stack.enter_context(stop.disconnecting(raw.fileno()))
                raw.read_only = is_read_only
                begin = COPY_IN_TRANSACTION
            else:
                uri = sqlite.file_uri(path, "mode=ro" if is_read_only else "mode=rw")
                raw = sqlite3.connect(
                    uri, LOCK_SECONDS, isolation_level=None, check_same_thread=False, uri=True
                )
                stack.enter_context(contextlib.closing(raw))
                raw.text_factory = text_factory
                begin = "BEGIN" if is_read_only else "BEGIN IMMEDIATE"
            engine = sa.create_engine(
                "postgresql+psycopg://" if path is None else "sqlite://",
                creator=lambda: raw,
                poolclass=NullPool,
                pool_reset_on_return=None,
            )
            # The first connection of an engine ends a transaction, so ours begins afterwards.
            connection = engine.connect()
            raw.execute(begin)
            yield OpenedDatabase(connection, raw, is_file=path is not None)
    except (sa.exc.SQLAlchemyError, psycopg.Error, sqlite3.Error) as error:
        stop.check()  # it has shut the connection down
        raise DatabaseUnavailable from error


def _connect(
    url: str, connect_seconds: float, loaders: Mapping[str, type[Loader]]
) -> "psycopg.Connection[Any]":
    address = make_conninfo("", **postgres_urls.parse(url).for_libpq())
    raw = psycopg.connect(address, connect_timeout=math.ceil(connect_seconds))
    raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    for name, loader in loaders.items():
        raw.adapters.register_loader(name, loader)
    return raw
