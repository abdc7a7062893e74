"""Execute scripts on a SQLite file: one connection of the sqlite3 module, in a thread."""

import contextlib
import fcntl
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import sqlalchemy as sa

from tenantry.db import open_files
from tenantry.db.open_files import OpenFile
from tenantry.db.sqlite import file_uri
from tenantry.kit.clock import monotonic_seconds
from tenantry.migration import dialects, live, schema_state
from tenantry.migration.execution import COMMIT, Ending, Execution, ThreadedWork, Transaction
from tenantry.migration.guard import EndsTransaction, ForeignKeysOn, Guard, TransactionRolledBack
from tenantry.migration.schema_state import Found, NoVersion, SchemaRevision, SchemaState
from tenantry.migration.statements import Step, is_recorded

# Beside the file while a run migrates it, so that a run waits for another run, however long
# that takes, and not long for anything else that holds the file.
LOCK_SUFFIX = "-migrating"
LOCK_POLL_SECONDS = 0.02


class SqliteExecution(Execution):
    """Executes scripts on one SQLite file.

    Args:
        path: The file.
        threads: Where sqlite3 runs: it is synchronous, and faster here than aiosqlite.
        user_table: The version table of the user's stream; None when there is none.
        lock_ms: How long to wait for the file, when something else writes to it.
    """

    def __init__(
        self, path: Path, threads: Executor, *, user_table: str | None, lock_ms: int
    ) -> None:
        self._path = path
        self._threads = threads
        self._user_table = user_table
        self._lock_ms = lock_ms
        self._raw: sqlite3.Connection | None = None
        self._file: OpenFile | None = None
        self._guard = Guard(rehearses=False)
        self._work = ThreadedWork(self._stop)

    async def dialect(self) -> sa.Dialect:
        """Return the engine."""
        return dialects.SQLITE

    async def read_state(
        self, run_id: UUID | None = None, *, close_at: SchemaRevision | None = None
    ) -> SchemaState:
        """Return where the database is."""
        return await self._work.run(self._threads, lambda: self._read_state(run_id, close_at))

    async def execute(
        self, steps: Sequence[Step], dialect: sa.Dialect, *, wait_ms: int, ending: Ending = COMMIT
    ) -> None:
        """Execute *steps* in one transaction."""
        del dialect
        # Here, so that there is one to stop, whenever that is.
        self._guard = Guard(rehearses=ending.rolls_back)
        await self._work.run(self._threads, lambda: self._execute(steps, wait_ms, ending))

    async def close(self) -> None:
        """Close the connection; if its thread is still at work, when that ends."""
        running = self._work.running
        if running is not None and not running.done():
            running.add_done_callback(lambda _: self._close())
        elif self._raw is not None:
            await self._work.run(self._threads, self._close)

    def _stop(self) -> None:
        self._guard.is_stopped = True
        # It may be closed at this moment, and then nothing is to be interrupted.
        with contextlib.suppress(sqlite3.ProgrammingError):
            if (raw := self._raw) is not None:
                raw.interrupt()

    def _read_state(self, run_id: UUID | None, close_at: SchemaRevision | None) -> SchemaState:
        raw = self._open()
        try:
            rows = self._find(raw, self._user_table, run_id)
        except sqlite3.OperationalError as error:
            if not _is_no_table(error):
                raise
            try:
                rows = self._find(raw, None, run_id)
            except sqlite3.OperationalError as second:
                raise (NoVersion() if _is_no_table(second) else second) from error
        state = schema_state.state_in(rows, has_user=self._user_table is not None)
        if state.revision == close_at:
            self._close()
        return state

    def _open(self) -> sqlite3.Connection:
        if self._file is not None and not self._file.is_there:
            self._close()
        if self._raw is None:
            self._file = open_files.find(self._path)
            # Foreign keys stay off, as they are for Alembic itself: its batch mode drops the
            # old table, and would delete what refers to it. A statement is not cached, because
            # the authorizer is asked when one is prepared.
            self._raw = sqlite3.connect(
                file_uri(self._path),
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=0,
                timeout=self._lock_ms / 1000,
            )
        return self._raw

    def _close(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def _find(
        self, raw: sqlite3.Connection, user_table: str | None, run_id: UUID | None
    ) -> list[Found]:
        compiled = schema_state.find(user_table, has_log=run_id is not None).sqlite
        return [
            Found(*row) for row in raw.execute(compiled.sql, compiled.arguments({"run": run_id}))
        ]

    def _execute(self, steps: Sequence[Step], wait_ms: int, ending: Ending) -> None:
        raw = self._open()
        connection: sa.Connection | None = None
        if is_recorded(steps):
            _add_functions(raw)
        else:
            # Before the transaction: when it first connects, SQLAlchemy rolls back.
            connection = live.connect_sqlite(str(self._path), raw, self._guard)
            connection.begin()
        try:
            with self._run_lock(wait_ms):
                self._transact(raw, steps, connection, ending)
        finally:
            if connection is not None:  # it closes the driver's connection, too
                connection.close()
                self._raw = None
        if ending.closes:
            self._close()

    def _transact(
        self,
        raw: sqlite3.Connection,
        steps: Sequence[Step],
        connection: sa.Connection | None,
        ending: Ending,
    ) -> None:
        authorizer = _Authorizer(raw, self._guard)
        raw.execute("BEGIN IMMEDIATE")
        raw.set_authorizer(authorizer)
        try:
            Transaction(raw, self._guard, connection, authorizer.check_open).execute(steps)
            if ending.rolls_back:
                raw.rollback()
                return
            self._guard.check_stopped()
            if self._file is not None:
                self._file.check()
            raw.commit()
        except BaseException:
            raw.rollback()
            raise
        finally:
            raw.set_authorizer(None)

    @contextlib.contextmanager
    def _run_lock(self, wait_ms: int) -> Iterator[None]:
        """Wait until no other run migrates this file."""
        path = f"{self._path}{LOCK_SUFFIX}"
        ends = monotonic_seconds() + wait_ms / 1000
        while (handle := _try_lock(path)) is None:
            self._guard.check_stopped()
            if monotonic_seconds() > ends:
                raise TimeoutError
            time.sleep(random.uniform(0.5, 1.0) * LOCK_POLL_SECONDS)  # noqa: S311
        try:
            yield
        finally:
            # While it is held: a process that opens it later notices that it is gone.
            os.unlink(path)  # noqa: PTH108 - as below
            os.close(handle)


class _Authorizer:
    """Refuses on SQLite what a revision may not do. SQLite asks it before each statement."""

    def __init__(self, raw: sqlite3.Connection, guard: Guard) -> None:
        self._raw = raw
        self._guard = guard

    def check_open(self) -> None:
        """Check that the transaction is still open.

        Raises:
            TransactionRolledBack: SQLite has rolled it back.
        """
        if not self._raw.in_transaction:
            raise TransactionRolledBack

    def __call__(self, action: int, name: str | None, value: str | None, *_: object) -> int:
        if not self._guard.is_watching:
            return sqlite3.SQLITE_OK
        refusal: Exception | None = None
        if self._guard.is_stopped:
            refusal = TimeoutError()
        elif not self._raw.in_transaction:
            refusal = TransactionRolledBack()
        elif action == sqlite3.SQLITE_TRANSACTION:
            refusal = EndsTransaction()
        elif action == sqlite3.SQLITE_PRAGMA and _turns_keys_on(name, value):
            refusal = ForeignKeysOn()
        if refusal is None:
            return sqlite3.SQLITE_OK
        self._guard.note(refusal)
        return sqlite3.SQLITE_DENY


def _try_lock(path: str) -> int | None:
    """Return a handle of the locked file at *path*, or None when another run has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino == os.stat(path).st_ino:  # noqa: PTH116 - half the time
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _add_functions(raw: sqlite3.Connection) -> None:
    """Add the functions that every connection of SQLAlchemy has."""
    on_connect: Any = dialects.SQLITE.on_connect()
    on_connect(cast("Any", raw))


def _turns_keys_on(name: str | None, value: str | None) -> bool:
    is_keys = (name or "").lower() == "foreign_keys"
    return is_keys and (value or "").lower() not in {"", "0", "off", "no", "false"}


def _is_no_table(error: sqlite3.OperationalError) -> bool:
    return str(error).startswith("no such table")
