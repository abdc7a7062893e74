"""Execute scripts on a SQLite file, over the sqlite3 module."""

import contextlib
import fcntl
import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa

from tenantry.db import open_files
from tenantry.db.open_files import OpenFile
from tenantry.db.sqlite import file_uri
from tenantry.kit.clock import monotonic_seconds
from tenantry.migration import dialects, live
from tenantry.migration.execution import Execution
from tenantry.migration.guard import EndsTransaction, ForeignKeysOn, Guard, TransactionRolledBack
from tenantry.migration.statements import Step, is_recorded

# A lock file next to the database while a run migrates it. A run waits for another run at this
# lock without a limit of its own, but only `lock_ms` for any other writer.
LOCK_SUFFIX = "-migrating"
LOCK_POLL_SECONDS = 0.02


class SqliteExecution(Execution):
    """Executes scripts on one SQLite file.

    Args:
        path: The file.
        user_table: The version table of the user's stream; None without such a stream.
        lock_ms: How long to wait for another writer of the file.
    """

    def __init__(self, path: Path, *, user_table: str | None, lock_ms: int) -> None:
        super().__init__(user_table)
        self._path = path
        self._lock_ms = lock_ms
        self._raw: sqlite3.Connection | None = None
        self._file: OpenFile | None = None

    @property
    def dialect(self) -> sa.Dialect:
        """The engine."""
        return dialects.SQLITE

    def execute(self, steps: Sequence[Step], *, wait_ms: int, rehearses: bool = False) -> None:
        """Execute *steps* in one transaction."""
        self.guard.rehearses = rehearses
        raw = self._connect()
        connection: sa.Connection | None = None
        if is_recorded(steps):
            _add_functions(raw)
        else:
            # Before the transaction, because SQLAlchemy rolls back on its first connect.
            connection = live.connect_sqlite(str(self._path), raw, self.guard)
            connection.begin()
        try:
            with self._run_lock(wait_ms):
                self._transact(raw, steps, connection)
        finally:
            if connection is not None:  # this closes the driver's connection, too
                connection.close()
                self._raw = None

    def stop(self) -> None:
        """Interrupt the running statement."""
        self.guard.stop()
        # If the connection is closed concurrently, there is nothing to interrupt.
        with contextlib.suppress(sqlite3.ProgrammingError):
            if (raw := self._raw) is not None:
                raw.interrupt()

    def close(self) -> None:
        """Close the connection."""
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def _connect(self) -> sqlite3.Connection:
        if self._file is not None and not self._file.is_there:
            self.close()
        if self._raw is None:
            self._file = open_files.find(self._path)
            # Foreign keys stay off, as in Alembic itself: its batch mode drops the old table,
            # which would delete the rows that refer to it. Statements are not cached, because
            # SQLite calls the authorizer only when it prepares a statement.
            self._raw = sqlite3.connect(
                file_uri(self._path),
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=0,
                timeout=self._lock_ms / 1000,
            )
        return self._raw

    def _transact(
        self, raw: sqlite3.Connection, steps: Sequence[Step], connection: sa.Connection | None
    ) -> None:
        raw.execute("BEGIN IMMEDIATE")
        raw.set_authorizer(_Authorizer(raw, self.guard))
        try:
            self._send(raw, steps, connection)
            self.guard.check_stopped()
            if self._file is not None:
                self._file.check()
            raw.rollback() if self.guard.rehearses else raw.commit()
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
            if monotonic_seconds() > ends:
                raise TimeoutError
            self.guard.sleep(random.uniform(0.5, 1.0) * LOCK_POLL_SECONDS)  # noqa: S311
        try:
            yield
        finally:
            # While the lock is held: a process that has opened the file detects its removal.
            os.unlink(path)  # noqa: PTH108 - as below
            os.close(handle)

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connect().execute(sql).fetchall()

    def _is_missing_table(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) and str(error).startswith(
            "no such table"
        )

    def _check_open(self, raw: sqlite3.Connection) -> None:
        """Check that SQLite has not rolled the transaction back.

        Raises:
            TransactionRolledBack: SQLite has rolled it back.
        """
        if not raw.in_transaction:
            raise TransactionRolledBack


class _Authorizer:
    """Denies what a revision must not do on SQLite, which calls it to prepare a statement."""

    def __init__(self, raw: sqlite3.Connection, guard: Guard) -> None:
        self._raw = raw
        self._guard = guard

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
    """Return a handle of the locked file at *path*, or None if another run holds the lock."""
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
    """Add the SQL functions that every connection of SQLAlchemy has."""
    on_connect: Any = dialects.SQLITE.on_connect()
    on_connect(cast("Any", raw))


def _turns_keys_on(name: str | None, value: str | None) -> bool:
    is_keys = (name or "").lower() == "foreign_keys"
    return is_keys and (value or "").lower() not in {"", "0", "off", "no", "false"}
