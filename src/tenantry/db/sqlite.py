"""Connections for requests on SQLite, over aiosqlite."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from tenantry.db import open_files
from tenantry.db.open_files import FileMissing, LeftLog, LogLeftBehind, OpenFile
from tenantry.db.sessions import Connection, DatabaseUnavailable
from tenantry.db.statements import Statement

BUSY_TIMEOUT_SECONDS = 5.0

Answer = TypeVar("Answer")


class SqliteConnection(Connection):
    """One connection to a SQLite file. Each has a thread of its own.

    Args:
        raw: The connection.
        file: What it has open.

    Attributes:
        left_log: Set when the connection is closed after its file was replaced.
    """

    # A transaction that begins by reading and then writes can meet SQLITE_BUSY at once,
    # whatever the timeout; one that takes the write lock first waits for it.
    begin_sql = "BEGIN IMMEDIATE"

    def __init__(self, raw: aiosqlite.Connection, file: OpenFile) -> None:
        self._raw = raw
        self._file = file
        self._is_open = True
        self.left_log: LeftLog | None = None

    async def run(self, statement: Statement[Any], values: dict[str, object]) -> list[Any]:
        """Run *statement* and return its rows."""
        compiled = statement.sqlite
        try:
            rows = await self._send(compiled.sql, compiled.arguments(values))
        except sqlite3.IntegrityError as error:
            raise _conflict(statement, error) from error
        row, fields = statement.row, compiled.fields
        return [] if row is None else [row(*fields(values)) for values in rows]

    async def run_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run *statement* once for each of *rows*, in a transaction that has begun."""
        compiled = statement.sqlite
        arguments = [compiled.arguments(values) for values in rows]
        try:
            await self._heed(self._raw.executemany(compiled.sql, arguments))
        except sqlite3.IntegrityError as error:
            raise _conflict(statement, error) from error

    async def command(self, sql: str) -> None:
        """Run *sql* as it stands."""
        await self._send(sql, [])

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was never cut short."""
        return self._is_open and not self._raw.in_transaction

    @property
    def is_attached(self) -> bool:
        """Whether the path still leads to the file that is open."""
        return self._file.is_there

    async def close(self) -> None:
        """Close the connection, and end its thread."""
        self._is_open = False
        # SQLite removes no log beside a file that is not its own.
        self.left_log = self._file.log_left_behind()
        await self._raw.close()

    async def _send(self, sql: str, arguments: list[object]) -> Iterable[Any]:
        return await self._heed(self._raw.execute_fetchall(sql, arguments))

    async def _heed(self, sent: Awaitable[Answer]) -> Answer:
        try:
            return await sent
        except (sqlite3.OperationalError, sqlite3.NotSupportedError) as error:
            raise DatabaseUnavailable from error
        except sqlite3.IntegrityError:
            raise
        except asyncio.CancelledError:
            self._is_open = False  # its thread may still be at work on what was sent
            raise
        except sqlite3.DatabaseError as error:  # the file is damaged, or no database
            raise DatabaseUnavailable from error


def file_uri(path: Path, *, create: bool = False) -> str:
    """Return the URI of a database file. Only provisioning creates one: else opening would."""
    return f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"


class SqliteFile:
    """Opens connections to the file at one path, for requests.

    Args:
        path: The file. It need not be there yet.
        synchronous: ``FULL``, ``NORMAL`` or ``OFF``; every other setting is fixed.
    """

    def __init__(self, path: Path, *, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._last: SqliteConnection | None = None

    async def connect(self) -> SqliteConnection:
        """Open a connection.

        Raises:
            DatabaseUnavailable: There is no such file, it cannot be opened, it is no database,
                or it has replaced another one whose log is still there.
        """
        # aiosqlite leaves a thread behind for a while when it cannot open, so ask first.
        try:
            file = open_files.find(self._path)
            if self._last is not None and self._last.left_log is not None:
                self._last.left_log.check()
        except (FileMissing, LogLeftBehind) as error:
            raise DatabaseUnavailable from error
        raw = await _open(self._path, self._synchronous)
        self._last = SqliteConnection(raw, open_files.with_log(file))
        return self._last


async def _open(path: Path, synchronous: str) -> aiosqlite.Connection:
    # isolation_level None: the driver would begin transactions by itself, but not before
    # DDL, and a revision that fails half-way would leave its tables behind.
    try:
        raw = await aiosqlite.connect(
            file_uri(path), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS
        )
    except sqlite3.Error as error:
        raise DatabaseUnavailable from error
    try:
        # The first read makes the log, which `open_files` compares later.
        await raw.executescript(f"{pragmas(synchronous)} PRAGMA schema_version;")
    except BaseException as error:  # whoever is cancelled here leaves no thread behind either
        await raw.close()
        if isinstance(error, sqlite3.Error):
            raise DatabaseUnavailable from error
        raise
    return raw


def pragmas(synchronous: str) -> str:
    """Return what every connection sets, the migrations' ones included."""
    # SQLite ignores foreign keys unless each connection asks for them.
    # Source: https://www.sqlite.org/foreignkeys.html#fk_enable
    return (
        f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON;"
    )


def _conflict(statement: Statement[Any], error: sqlite3.IntegrityError) -> Exception:
    # SQLite tells the columns ("UNIQUE constraint failed: t.a, t.b"), not the constraint;
    # by the naming convention of our tables they are the same thing.
    _, _, columns = str(error).partition("UNIQUE constraint failed: ")
    if not columns:
        return error
    table = columns.partition(".")[0]
    names = [column.partition(".")[2] for column in columns.split(", ")]
    conflict = statement.conflicts.get("_".join(["uq", table, *names]))
    return error if conflict is None else conflict()
