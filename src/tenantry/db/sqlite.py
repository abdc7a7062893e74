"""Connections for requests on SQLite, over aiosqlite."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from tenantry.db import open_files
from tenantry.db.open_files import FileMissing, LeftLog, LogLeftBehind, OpenFile
from tenantry.db.sessions import (
    ROW_SECONDS,
    STATEMENT_SECONDS_DEFAULT,
    Connection,
    DatabaseUnavailable,
)
from tenantry.db.statements import Statement

BUSY_TIMEOUT_SECONDS = 5.0
# An interrupt only ends what runs at that moment, and a statement may still be in the queue
# of its thread: it is interrupted again and again.
INTERRUPT_SECONDS = 0.05
# A thread that an interrupt does not reach in this time waits for the disk.
STUCK_SECONDS = 1.0

Answer = TypeVar("Answer")


class SqliteConnection(Connection):
    """One connection to a SQLite file. Each has a thread of its own.

    Args:
        driver: Sends statements to the thread.
        raw: The connection that it holds, for interrupts from this thread.
        file: What it has open.
        seconds_max: The deadline of each statement.

    Attributes:
        left_log: Set when the connection is closed after its file was replaced.
    """

    # A transaction that begins by reading and then writes can meet SQLITE_BUSY at once,
    # whatever the timeout; one that takes the write lock first waits for it.
    begin_sql = "BEGIN IMMEDIATE"

    def __init__(
        self,
        driver: aiosqlite.Connection,
        raw: sqlite3.Connection,
        file: OpenFile,
        seconds_max: float,
    ) -> None:
        self._driver = driver
        self._raw = raw
        self._file = file
        self._seconds_max = seconds_max
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self.left_log: LeftLog | None = None

    async def run(self, statement: Statement[Any], values: dict[str, object]) -> list[Any]:
        """Run *statement* and return its rows."""
        compiled, first = statement.sqlite, statement.sqlite_first
        arguments = compiled.arguments(values)
        try:
            if first is None:
                rows = await self._send(compiled.sql, arguments)
            else:
                rows = await self._heed(
                    self._in_thread(
                        _run_both, first.sql, first.arguments(values), compiled.sql, arguments
                    )
                )
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
            await self._heed(
                self._driver.executemany(compiled.sql, arguments), len(arguments) * ROW_SECONDS
            )
        except sqlite3.IntegrityError as error:
            raise _conflict(statement, error) from error

    async def command(self, sql: str) -> None:
        """Run *sql* as it stands."""
        await self._send(sql, [])

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was never cut short."""
        return self._is_open and not self._driver.in_transaction

    def retire(self) -> None:
        """Let no other statement use the connection."""
        self._is_open = False

    @property
    def is_attached(self) -> bool:
        """Whether the path still leads to the file that is open."""
        return self._file.is_there

    async def close(self) -> None:
        """Interrupt what runs, close the connection, and end its thread."""
        self._is_open = False
        # SQLite removes no log beside a file that is not its own.
        self.left_log = self._file.log_left_behind()
        closing = asyncio.create_task(self._driver.close())
        while not (await asyncio.wait({closing}, timeout=INTERRUPT_SECONDS))[0]:
            self._interrupt_once()
        with contextlib.suppress(sqlite3.Error):
            closing.result()

    async def _send(self, sql: str, arguments: list[object]) -> Iterable[Any]:
        return await self._heed(self._driver.execute_fetchall(sql, arguments))

    async def _heed(self, sent: Awaitable[Answer], seconds_more: float = 0) -> Answer:
        seconds = self._seconds_max + seconds_more
        self._timer = self._loop.call_later(seconds, self._interrupt)
        try:
            async with asyncio.timeout(seconds + STUCK_SECONDS):
                return await sent
        except TimeoutError as error:
            raise DatabaseUnavailable from error
        except (sqlite3.OperationalError, sqlite3.NotSupportedError) as error:
            raise DatabaseUnavailable from error
        except sqlite3.IntegrityError:
            raise
        except asyncio.CancelledError:
            self._is_open = False  # its thread may still be at work on what was sent
            raise
        except sqlite3.DatabaseError as error:  # the file is damaged, or no database
            raise DatabaseUnavailable from error
        finally:
            self._timer.cancel()

    async def _in_thread(self, work: Callable[..., Answer], *arguments: object) -> Answer:
        # Private, but the only way to run several statements in one turn of the thread: a turn
        # costs as much as ten statements.
        done = self._driver._execute(work, self._raw, *arguments)  # type: ignore[no-untyped-call]  # noqa: SLF001
        answer: Answer = await done
        return answer

    def _interrupt(self) -> None:
        """Interrupt what runs until `_heed` has its answer."""
        self._is_open = False
        self._interrupt_once()
        self._timer = self._loop.call_later(INTERRUPT_SECONDS, self._interrupt)

    def _interrupt_once(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # its thread has closed it
            self._raw.interrupt()


def file_uri(path: Path) -> str:
    """Return the URI of a database file; to open it never creates one."""
    return f"{path.absolute().as_uri()}?mode=rw"


class SqliteFile:
    """Opens connections to the file at one path, for requests.

    Args:
        path: The file. It need not be there yet.
        synchronous: ``FULL``, ``NORMAL`` or ``OFF``; every other setting is fixed.
        statement_seconds: The deadline of each statement.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: str,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
    ) -> None:
        self._path = path
        self._synchronous = synchronous
        self._statement_seconds = statement_seconds
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
        seconds = self._statement_seconds
        driver, raw = await _open(self._path, self._synchronous, seconds)
        self._last = SqliteConnection(driver, raw, open_files.with_log(file), seconds)
        return self._last


async def _open(
    path: Path, synchronous: str, statement_seconds: float
) -> tuple[aiosqlite.Connection, sqlite3.Connection]:
    opened: list[sqlite3.Connection] = []

    def open_raw(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(sqlite3.Connection(*args, **options))
        return opened[0]

    # isolation_level None: the driver would begin transactions by itself, but not before
    # DDL, and a revision that fails half-way would leave its tables behind.
    try:
        driver = await aiosqlite.connect(
            file_uri(path),
            uri=True,
            isolation_level=None,
            timeout=min(BUSY_TIMEOUT_SECONDS, statement_seconds),
            factory=open_raw,
        )
    except sqlite3.Error as error:
        raise DatabaseUnavailable from error
    try:
        # The first read makes the log, which `open_files` compares later.
        await driver.executescript(f"{pragmas(synchronous)} PRAGMA schema_version;")
    except BaseException as error:  # whoever is cancelled here leaves no thread behind either
        stopping = driver.stop()
        if stopping is not None:
            await asyncio.wait({stopping}, timeout=STUCK_SECONDS)
        if isinstance(error, sqlite3.Error):
            raise DatabaseUnavailable from error
        raise
    return driver, opened[0]


def pragmas(synchronous: str) -> str:
    """Return what every connection sets, the migrations' ones included."""
    # SQLite ignores foreign keys unless each connection asks for them.
    # Source: https://www.sqlite.org/foreignkeys.html#fk_enable
    return (
        f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON;"
    )


def _run_both(
    raw: sqlite3.Connection,
    first: str,
    first_arguments: list[object],
    last: str,
    last_arguments: list[object],
) -> list[Any]:
    """Run two statements in one transaction; return the rows of the second."""
    raw.execute(SqliteConnection.begin_sql)
    try:
        raw.execute(first, first_arguments)
        rows = raw.execute(last, last_arguments).fetchall()
        raw.execute("COMMIT")
    except BaseException:
        # If this fails, too, the connection is in its transaction still, and is not used again.
        with contextlib.suppress(sqlite3.Error):
            raw.execute("ROLLBACK")
        raise
    return rows


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
