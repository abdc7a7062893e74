"""Connections for requests on SQLite."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from tenantry.db import open_files, outage_errors
from tenantry.db.open_files import FileMissing, LeftLog, LogLeftBehind, OpenFile
from tenantry.db.sessions import (
    ROW_SECONDS,
    STATEMENT_SECONDS_DEFAULT,
    Connection,
    DatabaseReplaced,
    DatabaseUnavailable,
    RejectedByDatabase,
    StatementDeadline,
    StorageFull,
    WritesRejected,
)
from tenantry.db.statements import Conflicts, Row, Statement
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.tracing import active

BUSY_TIMEOUT_SECONDS = 5.0
FENCED = "the database rejects writes: it is moved"
"""The message of the triggers of a write fence."""
# An interrupt ends only the statement that is running, and this one may still be in the queue
# of its thread. So the interrupt is repeated at this interval.
INTERRUPT_SECONDS = 0.05
# A thread that does not react to interrupts within this time is waiting for the disk.
STUCK_SECONDS = 1.0

Answer = TypeVar("Answer")

_Work = tuple["asyncio.Future[Any]", Callable[[], Any]]

_log = structlog.get_logger(__name__)


class ConnectionThread:
    """Runs functions for the event loop that creates it. `end` must be called.

    One function may run several statements: a switch to the thread costs as much as ten of them.
    It is a daemon thread: one that waits for the disk does not prevent the process from exiting.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._has_ended = False
        threading.Thread(target=self._serve, name="sqlite", daemon=True).start()

    def run(self, work: Callable[[], Answer]) -> "asyncio.Future[Answer]":
        """Return the result of *work*, which runs after what was given before.

        The future may be cancelled, or completed by the caller: the work still runs.

        Raises:
            sqlite3.ProgrammingError: As the result: the thread has ended.
            Exception: As the result: any error of *work*.
        """
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if self._has_ended:
            answer.set_exception(sqlite3.ProgrammingError("The connection is closed."))
        else:
            self._work.put((answer, work))
        return answer

    def end(self) -> None:
        """End the thread when it has run everything that it was given."""
        self._has_ended = True
        self._work.put(None)

    def _serve(self) -> None:
        while (given := self._work.get()) is not None:
            answer, work = given
            try:
                result, error = work(), None
            except BaseException as raised:  # noqa: BLE001 - the waiting caller gets it
                result, error = None, raised
            # The loop may have been closed: then no caller waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_complete, answer, result, error)
            del given, answer, work, result, error


def _complete(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


class SqliteConnection(Connection):
    """One connection to a SQLite file.

    Args:
        thread: The thread that has opened *raw*, and alone runs statements on it.
        raw: The connection.
        file: The file that it has open.
        seconds_max: The deadline of each statement.

    Attributes:
        left_log: Set when the connection is closed after its file was replaced.
    """

    # A transaction that reads before it writes can fail with SQLITE_BUSY immediately, whatever
    # the timeout. BEGIN IMMEDIATE takes the write lock first, and waits for it.
    begin_sql = "BEGIN IMMEDIATE"

    def __init__(
        self,
        thread: ConnectionThread,
        raw: sqlite3.Connection,
        file: OpenFile,
        seconds_max: float,
    ) -> None:
        self._thread = thread
        self._raw = raw
        self._file = file
        self._deadline = StatementDeadline(seconds_max, self._begin_to_interrupt)
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] | None = None
        self._is_open = True
        self.left_log: LeftLog | None = None

    async def fetch(self, statement: Statement[Row], values: Mapping[str, object]) -> list[Row]:
        """Return every row."""
        compiled, first = statement.sqlite, statement.sqlite_first
        arguments = compiled.arguments(values)
        if first is None:
            work = partial(self._run, compiled.sql, arguments)
        else:
            first_arguments = first.arguments(values)
            work = partial(self._run_both, first.sql, first_arguments, compiled.sql, arguments)
        found = await self._in_thread(compiled.sql, work, statement.conflicts)
        return compiled.rows(statement.row, found)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing, once for each of *rows*."""
        if rows:
            compiled = statement.sqlite
            arguments = list(map(compiled.arguments, rows))
            work = partial(self._run_many, compiled.sql, arguments)
            seconds_more = len(rows) * ROW_SECONDS
            await self._in_thread(compiled.sql, work, statement.conflicts, seconds_more)

    async def command(self, sql: str) -> None:
        """Run *sql* unchanged, without parameters."""
        await self._in_thread(sql, partial(self._run, sql, []), {})

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was not interrupted."""
        return self._is_open and not self._raw.in_transaction

    def retire(self) -> None:
        """Make the connection unusable."""
        self._is_open = False

    async def close(self) -> None:
        """Interrupt the running statement, close the connection, and end its thread."""
        self._is_open = False
        self._deadline.close()
        # On close, SQLite does not remove the log if the database file was replaced.
        self.left_log = self._file.log_left_behind()
        closing = self._thread.run(self._raw.close)
        self._thread.end()
        while not (await asyncio.wait({closing}, timeout=INTERRUPT_SECONDS))[0]:
            self._interrupt_once()
        with contextlib.suppress(sqlite3.Error):
            closing.result()

    async def _in_thread(
        self,
        sql: str,
        work: Callable[[], Answer],
        conflicts: Conflicts,
        seconds_more: float = 0.0,
    ) -> Answer:
        """Run *work*, which executes *sql*, in the thread of the connection, and return its result.

        Raises:
            DatabaseUnavailable: It failed, or did not end in time.
            DatabaseReplaced: The file at the path is another one; nothing was run.
            Conflict: It violates a constraint: one of *conflicts*, or `RejectedByDatabase`.
        """
        self._answer = answer = self._thread.run(work)
        self._deadline.begin(seconds_more)
        try:
            if active.tracer is not None:
                return await active.tracer.statement("sqlite", sql, answer)
            return await answer
        except sqlite3.IntegrityError as error:
            raise conflict_of(conflicts, error) from error
        except asyncio.CancelledError:
            self._is_open = False  # its thread may still be running the statement
            raise
        # The deadline has passed, the file is locked or damaged, or it is not a database.
        except (TimeoutError, sqlite3.DatabaseError) as error:
            # If the file, or its log, could not be opened for writing, SQLite has opened it for
            # reading: such a connection would reject every write.
            self._is_open = self._is_open and not outage_errors.is_outage(error)
            is_full = outage_errors.is_disk_full(error)
            raise (StorageFull if is_full else DatabaseUnavailable) from error
        finally:
            self._deadline.due = None

    # The next four run in the thread of the connection. Comparing the file there costs one system
    # call; in the event loop, it would also hand the interpreter to another thread and back: a
    # sixth of the server's time when many requests write.

    def _run(self, sql: str, arguments: list[object]) -> list[Any]:
        self._check_file()
        return self._raw.execute(sql, arguments).fetchall()

    def _run_many(self, sql: str, rows: list[list[object]]) -> None:
        self._raw.executemany(sql, rows)

    def _run_both(
        self, first: str, first_arguments: list[object], last: str, last_arguments: list[object]
    ) -> list[Any]:
        """Run two statements in one transaction; return the rows of the second."""
        raw = self._raw
        if raw.in_transaction:
            self._run(first, first_arguments)
            return self._run(last, last_arguments)
        self._run(self.begin_sql, [])
        try:
            raw.execute(first, first_arguments)
            rows = raw.execute(last, last_arguments).fetchall()
            raw.execute("COMMIT")
        except BaseException:
            # If this fails, too, the connection is still in its transaction, and is not used again.
            with contextlib.suppress(sqlite3.Error):
                raw.execute("ROLLBACK")
            raise
        return rows

    def _check_file(self) -> None:
        if not (self._raw.in_transaction or self._file.is_there):
            self._is_open = False
            raise DatabaseReplaced

    def _begin_to_interrupt(self) -> None:
        assert self._answer is not None, "a deadline passes while an answer is awaited"
        self._is_open = False
        self._interrupt(self._answer, monotonic_seconds() + STUCK_SECONDS)

    def _interrupt(self, answer: "asyncio.Future[Any]", stuck_at: float) -> None:
        """Interrupt the running statement until *answer* is done; at *stuck_at*, give up."""
        if answer.done():
            return
        if monotonic_seconds() >= stuck_at:
            answer.set_exception(TimeoutError())
            return
        self._interrupt_once()
        self._loop.call_later(INTERRUPT_SECONDS, self._interrupt, answer, stuck_at)

    def _interrupt_once(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # its thread has closed it
            self._raw.interrupt()


def file_uri(path: Path, options: str = "mode=rw") -> str:
    """Return the URI of a database file; opening it never creates a file."""
    return f"{path.absolute().as_uri()}?{options}"


def quoted(name: str) -> str:
    """Return *name* as an identifier in SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class SqliteFile:
    """Opens connections to the file at one path, for requests.

    Args:
        path: The file. It need not exist yet.
        synchronous: ``FULL``, ``NORMAL`` or ``OFF``; every other setting is fixed.
        statement_seconds: The deadline of each statement.
        busy_seconds: How long a statement waits for another writer.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: str,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
        busy_seconds: float = BUSY_TIMEOUT_SECONDS,
    ) -> None:
        self._path = path
        self._synchronous = synchronous
        self._statement_seconds = statement_seconds
        self._busy_seconds = min(busy_seconds, statement_seconds)
        self._last: SqliteConnection | None = None

    async def connect(self) -> SqliteConnection:
        """Open a connection.

        Raises:
            DatabaseUnavailable: The file is missing, cannot be opened, or is not a database; or
                it has replaced another file, and the log of that file still exists.
        """
        try:
            file = open_files.find(self._path)
            if self._last is not None and self._last.left_log is not None:
                self._last.left_log.check()
        except (FileMissing, LogLeftBehind) as error:
            raise DatabaseUnavailable from error
        seconds = self._statement_seconds
        thread, raw = await _open(self._path, self._synchronous, self._busy_seconds)
        self._last = SqliteConnection(thread, raw, open_files.with_log(file), seconds)
        return self._last


async def _open(
    path: Path, synchronous: str, busy_seconds: float
) -> tuple[ConnectionThread, sqlite3.Connection]:
    thread = ConnectionThread()
    opened: list[sqlite3.Connection] = []

    def close_raw() -> None:
        for raw in opened:
            raw.close()

    def open_raw() -> None:
        # isolation_level None: otherwise the driver begins transactions by itself, but not before
        # DDL, so the tables of a failed revision would remain.
        uri = file_uri(path)
        raw = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy_seconds)
        opened.append(raw)
        # The first read creates the log, which `open_files` compares later.
        raw.executescript(f"{pragmas(synchronous)} PRAGMA schema_version;")

    try:
        await thread.run(open_raw)
    except BaseException as error:  # end the thread on cancellation, too
        thread.run(close_raw)
        thread.end()
        if isinstance(error, sqlite3.Error):
            raise DatabaseUnavailable from error
        raise
    return thread, opened[0]


def pragmas(synchronous: str) -> str:
    """Return the pragmas that every connection sets, also those of migrations."""
    # SQLite ignores foreign keys unless each connection enables them.
    # Source: https://www.sqlite.org/foreignkeys.html#fk_enable
    return (
        f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON;"
    )


def conflict_of(conflicts: Conflicts, error: sqlite3.IntegrityError) -> Exception:
    """Return the error of *conflicts* that a violated constraint stands for, or a general one."""
    # SQLite names the columns ("UNIQUE constraint failed: t.a, t.b"), not the constraint. The
    # naming convention of our tables derives the name of the constraint from the columns.
    if str(error) == FENCED:
        return WritesRejected()
    _, _, columns = str(error).partition("UNIQUE constraint failed: ")
    table = columns.partition(".")[0]
    names = [column.partition(".")[2] for column in columns.split(", ")]
    conflict = conflicts.get("_".join(["uq", table, *names]))
    if conflict is not None:
        return conflict()
    # Without its message: that of a trigger can contain values of the row.
    _log.warning("change rejected by the database", kind=error.sqlite_errorname)
    return RejectedByDatabase()
