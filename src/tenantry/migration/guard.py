"""Reject what a revision must not do on its connection, above all end the transaction.

The checks are on the connections of SQLAlchemy and of the driver, so they also apply to a cursor
of the driver. If an unknown driver bypasses them, the check after the revision fails, because the
transaction is not the one that the engine began.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.stopping import Stop
from tenantry.migration import sql_text
from tenantry.migration.revisions import RevisionExited, RevisionFailed, line_in
from tenantry.migration.statements import LiveRevision, Statement, Step


class EndsTransaction(Unavailable):
    """The revision ends its transaction (COMMIT, ROLLBACK, or executescript of sqlite3)."""


class CommitApart(EndsTransaction):
    """commit() must be directly before autocommit_block(): put other statements before it."""


class BlockLeavesTransaction(EndsTransaction):
    """The block begins a transaction and does not end it: send COMMIT in the block."""


class NotRehearsable(Unavailable):
    """A rollback does not undo this revision, so it and the later ones cannot be rehearsed."""


class SecondConnection(Unavailable):
    """The revision opens a second connection: it must use the one of `op.get_bind()`."""


class TransactionModeChanged(Unavailable):
    """The revision changes autocommit or the isolation level: use `autocommit_block()`."""


class UnknownCursor(Unavailable):
    """The revision makes a cursor itself, in a block or to stream: make it with `cursor()`."""


class AuthorizerReplaced(Unavailable):
    """The revision sets an authorizer of sqlite3, but Tenantry uses it to guard the transaction."""


class BackupInTransaction(Unavailable):
    """`backup()` of sqlite3 never returns in a write transaction: copy the rows with SQL."""


class CopyWithoutData(Unavailable):
    """COPY … FROM STDIN needs a cursor and its `copy()` or `copy_expert()`: or use INSERT."""


class TransactionRolledBack(Unavailable):
    """The database itself rolled the transaction back (OR ROLLBACK, or a full disk)."""


class Guard:
    """Checks the statements on one connection while a revision runs on it.

    Attributes:
        rehearses: Whether the transaction will be rolled back.
        is_watching: Whether a revision is running.
        is_in_block: Whether it is in an autocommit block, where it can have a transaction.
        is_final: Whether it has sent what this run must not repeat.
        awaits_other: Whether it has asked for the lock of a migration, which another may have.
        stop: Set by another thread when nothing more may be sent.
        before_commit: Called before the COMMIT; raises an error if there must be none.
    """

    def __init__(self) -> None:
        self.rehearses = False
        self.is_watching = self.is_in_block = self.is_final = self.awaits_other = False
        self.stop = Stop()
        self.before_commit: Callable[[], None] | None = None
        self._refusal: Exception | None = None
        self._file: Path | None = None  # of the live revision that runs
        self._before: Callable[[str], None] | None = None
        self._accepts_commit = self._awaits_block = self._has_had_block = False

    @contextlib.contextmanager
    def calling(self, before: Callable[[str], None], *, accepts_commit: bool) -> Iterator[None]:
        """Call *before* with each text that a revision with an autocommit block sends.

        With *accepts_commit*, its ``commit()`` directly before a block is left to the block, and
        one at its end, after a block, to the script.

        Raises:
            CommitApart: It is anywhere else.
        """
        self._before, self._accepts_commit = before, accepts_commit
        self._has_had_block = False
        try:
            yield
            if not self._has_had_block:  # otherwise, it is too late
                self._check_block()
        finally:
            self._before, self._accepts_commit, self._awaits_block = None, False, False

    def enter_block(self) -> None:
        """Store that the revision has entered its autocommit block."""
        self.is_in_block, self._awaits_block, self._has_had_block = True, False, True

    def _check_block(self) -> None:
        if self._awaits_block:
            self.refuse(CommitApart())

    def check_refused(self) -> None:
        """Check that the revision was not refused before, even if it caught the error.

        Raises:
            Exception: The refusal.
        """
        if self._refusal:
            raise self._refusal

    def sleep(self, seconds: float) -> None:
        """Sleep, at most until the work is stopped.

        Raises:
            TimeoutError: See `check_stopped`.
        """
        self.stop.wait(seconds)
        self.check_stopped()

    @contextlib.contextmanager
    def watching(self, step: Step) -> Iterator[None]:
        """Watch a step of a revision; any other step is Tenantry's own.

        Raises:
            RevisionFailed: It raised an error, or was rejected, even if it caught the rejection.
        """
        self.is_watching = step.revision is not None
        self._file = step.code.path if isinstance(step, LiveRevision) else None
        try:
            yield
            self.check_refused()
        # A thread is neither cancelled nor interrupted, so the revision itself raised this.
        except BaseException as error:
            if step.revision is None:
                raise
            raised = RevisionExited() if isinstance(error, SystemExit) else error
            source = step.code.source if isinstance(step, LiveRevision) else None
            sql = step.sql if isinstance(step, Statement) else getattr(error, "statement", None)
            raise RevisionFailed(step.revision, source, sql) from self._refusal or raised
        finally:
            self.is_watching = False

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """Allow the engine's own statements while a revision runs."""
        was_watching, self.is_watching = self.is_watching, False
        try:
            yield
        finally:
            self.is_watching = was_watching

    def check_stopped(self) -> None:
        """Check that the work was not stopped.

        Raises:
            TimeoutError: It was: nothing more may be sent or committed.
        """
        if self.stop.is_set:
            raise TimeoutError

    def check_sql(self, sql: Any, cursor: Any = None) -> None:
        """Check a text of SQL before it is sent.

        Args:
            sql: The text, or one that the driver composes (``sql.SQL``).
            cursor: The cursor that composes it.

        Raises:
            EndsTransaction, NotRehearsable, CommitApart: The revision must not send it.
            TimeoutError: See `check_stopped`.
        """
        self.check_stopped()
        text = _text_of(sql, cursor) if self.is_watching else None
        if text is None:
            return
        self.check_refused()
        self._check_block()
        parsed = sql_text.read(text)
        # In a block there is no transaction but the revision's own.
        if parsed.ends_transaction and not self.is_in_block:
            self.refuse(EndsTransaction())
        if self.rehearses and sql_text.outlives_rollback(text):
            self.refuse(NotRehearsable())
        if self._before:
            with self.pausing():
                self._before(text)

    def check_copy(self, sql: Any, cursor: Any) -> None:
        """Check a text that is sent by another method than the driver's own for COPY.

        The server would wait for rows that nothing sends.

        Raises:
            CopyWithoutData: It needs that method.
        """
        text = _text_of(sql, cursor) if self.is_watching else None
        if text is not None and sql_text.needs_client(text):
            self.refuse(CopyWithoutData())

    def check_end(self, *_: object) -> None:
        """Check that the engine commits or rolls back, and not the revision.

        Raises:
            EndsTransaction: The revision does.
        """
        self.deny(EndsTransaction())

    def check_commit(self, *_: object) -> None:
        """Check that the engine commits, and not the revision, except directly before its block.

        Raises:
            EndsTransaction: The revision does.
        """
        if self.is_watching and self._accepts_commit and not self.is_in_block:
            self._awaits_block = True
        else:
            self.check_end()

    @property
    def leaves_commit(self) -> bool:
        """Whether the revision has committed directly before its block, which will commit."""
        return self.is_watching and self._awaits_block

    def check_mode(self) -> None:
        """Check that the engine changes the transactions of the connection, and not the revision.

        Raises:
            TransactionModeChanged: The revision does.
        """
        self.deny(TransactionModeChanged())

    def deny(self, refusal: Exception) -> None:
        """Refuse, unless the engine itself is at work."""
        if self.is_watching:
            self.refuse(refusal)

    def note(self, refusal: Exception) -> None:
        """Store the reason for which the revision fails, even if it catches the error."""
        if self._refusal is None and isinstance(refusal, TenantryError):
            refusal.message = f"{refusal.message.removesuffix('.')}{self.place()}."
        self._refusal = self._refusal or refusal

    def place(self) -> str:
        """Return the line of the live revision that is executed now, in parentheses, if any."""
        line = line_in(self._file) if self._file else None
        return f" ({self._file.name}, line {line})" if self._file and line else ""

    def refuse(self, refusal: Exception) -> None:
        """Raise *refusal*, and store it."""
        self.note(refusal)
        raise refusal


def _text_of(sql: Any, cursor: Any) -> str | None:
    """Return the text that a driver sends for *sql*; None for what it rejects."""
    if hasattr(sql, "as_string"):
        sql = sql.as_string(cursor)
    text = sql.decode(errors="replace") if isinstance(sql, bytes) else sql
    return text if isinstance(text, str) else None
