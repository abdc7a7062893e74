"""Execute scripts on a SQLite file, over the sqlite3 module."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tenantry.db import open_files
from tenantry.db.open_files import OpenFile
from tenantry.db.sqlite.connections import file_uri
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import monotonic_seconds
from tenantry.migration import dialects, live
from tenantry.migration.execution import Execution
from tenantry.migration.guard import (
    EndsTransaction,
    Guard,
    TransactionRolledBack,
)
from tenantry.migration.guarded_drivers import SqliteConnection
from tenantry.migration.pragmas import ForeignKeysOn, JournalModeSet, Pragmas
from tenantry.migration.statements import LiveRevision, LockAwaited, Step, is_recorded

# A lock file next to the database while a run migrates it. A run waits for another run at this
# lock without a limit of its own, but only `lock_ms` for any other writer.
LOCK_SUFFIX = "-migrating"
LOCK_POLL_SECONDS = 0.02

# The SQL functions that every connection of SQLAlchemy has.
_ADD_FUNCTIONS: Any = dialects.SQLITE.on_connect()


class SqliteExecution(Execution):
    """Executes scripts on one SQLite file; waits *lock_ms* for another writer of it."""

    def __init__(
        self, path: Path, *, user_table: str | None, attached_at: str | None = None, lock_ms: int
    ) -> None:
        super().__init__(user_table, attached_at=attached_at)
        self._path = path
        self._lock_ms = lock_ms
        self._file: OpenFile | None = None
        self._pragmas = Pragmas("")

    @property
    def dialect(self) -> sa.Dialect:
        """The engine."""
        return dialects.SQLITE

    def execute(
        self,
        steps: Sequence[Step],
        *,
        wait_ms: int,
        rehearses: bool = False,
        has_next: bool = False,
    ) -> None:
        """Execute *steps* in one transaction."""
        del has_next  # every revision is in one script
        self.guard.rehearses = rehearses
        self._context, self._pragmas = None, Pragmas("")  # the connection of SQLAlchemy is new
        raw = self._connect()
        connection: sa.Connection | None = None
        if is_recorded(steps):
            _ADD_FUNCTIONS(raw)
        else:
            # Before the transaction, because SQLAlchemy rolls back on its first connect.
            connection = live.connect_sqlite(str(self._path), raw, self.guard)
            # A module that revisions import can have a listener that turns them on.
            raw.execute("PRAGMA foreign_keys = OFF")
            connection.begin()
        try:
            with self._run_lock(wait_ms):
                raw.execute("BEGIN IMMEDIATE")
                if connection is not None:  # what is recorded needs no guard: see `recorder`
                    [mode] = raw.execute("PRAGMA journal_mode").fetchone()
                    self._pragmas = Pragmas(mode, self.guard.place)
                    raw.set_trace_callback(_tracer(self.guard, self._pragmas))
                    raw.set_authorizer(_authorizer(raw, self.guard, self._pragmas))
                self._transact(raw, steps, connection)
        finally:
            # Both calls fail if the revision has closed the connection of the driver.
            with contextlib.suppress(sqlite3.ProgrammingError):
                raw.set_authorizer(None)
                raw.set_trace_callback(None)
            if connection is not None:
                self._raw = None
                with contextlib.suppress(sa.exc.ProgrammingError):
                    connection.close()  # this closes the connection of the driver, too

    def stop(self) -> None:
        """Interrupt the running statement."""
        self.guard.stop.set()
        # There is nothing to interrupt without a connection, or if it is closed concurrently.
        with contextlib.suppress(AttributeError, sqlite3.ProgrammingError):
            self._raw.interrupt()

    def _connect(self) -> Any:
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
                factory=SqliteConnection,
                timeout=self._lock_ms / 1000,
            )
            self._raw.guard = self.guard
        return self._raw

    def _check_commit(self) -> None:
        super()._check_commit()
        if self._file is not None:
            self._file.check()

    @contextlib.contextmanager
    def _run_lock(self, wait_ms: int) -> Iterator[None]:
        """Wait until no other run migrates this file."""
        path = f"{self._path}{LOCK_SUFFIX}"
        ends = monotonic_seconds() + wait_ms / 1000
        while (handle := _try_lock(path)) is None:
            self.guard.awaits_other = True
            if monotonic_seconds() > ends:
                raise LockAwaited
            self.guard.sleep(backoff_seconds(LOCK_POLL_SECONDS))
        self.guard.awaits_other = False
        try:
            yield
        finally:
            # While the lock is held: a process that has opened the file detects its removal.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - half the time
            os.close(handle)

    def _is_changed(self) -> bool:
        return self._pragmas.is_on or super()._is_changed()

    def _upgrade(self, step: LiveRevision, connection: sa.Connection, raw: Any) -> None:
        self._pragmas.begin_revision(raw)
        super()._upgrade(step, connection, raw)
        self._check_open(raw)
        self._pragmas.check_keys(raw)

    def _check_open(self, raw: sqlite3.Connection) -> None:
        """Check that SQLite has not rolled the transaction back.

        Raises:
            TransactionRolledBack: SQLite has rolled it back.
        """
        if not raw.in_transaction:
            raise TransactionRolledBack


def _authorizer(raw: sqlite3.Connection, guard: Guard, pragmas: Pragmas) -> Callable[..., int]:
    """Return what SQLite calls to prepare a statement: it denies what a revision must not do."""

    def authorize(action: int, name: str | None, value: str | None, *_: object) -> int:
        if not guard.is_watching:
            return sqlite3.SQLITE_OK
        if guard.stop.is_set:
            guard.note(TimeoutError())
        elif not raw.in_transaction:
            guard.note(TransactionRolledBack())
        elif action == sqlite3.SQLITE_TRANSACTION:
            guard.note(EndsTransaction())
        else:
            try:
                return pragmas.authorize(action, name or "", value)
            except (ForeignKeysOn, JournalModeSet) as refusal:
                guard.note(refusal)
        return sqlite3.SQLITE_DENY

    return authorize


def _tracer(guard: Guard, pragmas: Pragmas) -> Callable[[str], None]:
    def trace(sql: str) -> None:
        if guard.is_watching:
            pragmas.trace(sql)

    return trace


def _try_lock(path: str) -> int | None:
    """Return a handle of the locked file at *path*, or None if another run holds the lock."""
    handle, is_locked = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), False
    try:
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = os.fstat(handle).st_ino == os.stat(path).st_ino  # noqa: PTH116 - as above
        return handle if is_locked else None
    finally:
        if not is_locked:
            os.close(handle)
