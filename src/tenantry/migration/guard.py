"""What a revision may not do on the connection that it is given: end the transaction, above all.

The checks are on SQLAlchemy's connection and on the driver's, so that they hold for a cursor
of the driver, too. What gets past them (a driver that they do not know) is noticed after the
revision: the transaction is then not the one that the engine began.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.revisions import RevisionFailed


class EndsTransaction(Unavailable):
    """The revision ends the transaction it runs in (COMMIT, ROLLBACK, or sqlite3 executescript)."""


class NotRehearsable(Unavailable):
    """It does what no rollback undoes, so neither it nor what follows can be rehearsed."""


class SecondConnection(Unavailable):
    """The revision opens a second connection: it must use that of `op.get_bind()`."""


class ForeignKeysOn(Unavailable):
    """PRAGMA foreign_keys = ON does nothing inside a transaction: check with foreign_key_check."""


class TransactionRolledBack(Unavailable):
    """The database itself rolled the transaction back (OR ROLLBACK, or a full disk)."""


class Guard:
    """Watches what is sent on one connection, while a revision runs on it.

    Attributes:
        rehearses: Whether all of it is rolled back.
        is_watching: A revision runs.
    """

    def __init__(self) -> None:
        self.rehearses = False
        self.is_watching = False
        self._refusal: Exception | None = None
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more may be sent."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Let nothing more be sent. Any thread may call it."""
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Sleep, or until the work is stopped.

        Raises:
            TimeoutError: See `check_stopped`.
        """
        self._stopped.wait(seconds)
        self.check_stopped()

    @contextlib.contextmanager
    def watching(self, name: str) -> Iterator[None]:
        """Watch the revision *name*.

        Raises:
            RevisionFailed: It raised something, or did what it may not, even if it went on.
        """
        self.is_watching = True
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is raised again, by its name
            if not isinstance(error, RevisionFailed):
                raise RevisionFailed(name) from self._refusal or error
            raise RevisionFailed(name, error.source) from self._refusal or error.__cause__
        finally:
            self.is_watching = False
        if self._refusal:
            raise RevisionFailed(name) from self._refusal

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """Send what is the engine's own, although a revision runs."""
        was_watching, self.is_watching = self.is_watching, False
        try:
            yield
        finally:
            self.is_watching = was_watching

    def check_stopped(self) -> None:
        """Check that the work was not given up.

        Raises:
            TimeoutError: Nothing more may be sent, and nothing be committed.
        """
        if self.is_stopped:
            raise TimeoutError

    def check_sql(self, sql: Any) -> None:
        """Check a text of SQL before it is sent.

        Raises:
            EndsTransaction, NotRehearsable: The revision may not do that.
            TimeoutError: See `check_stopped`.
        """
        self.check_stopped()
        if not self.is_watching:
            return
        text = sql.decode(errors="replace") if isinstance(sql, bytes) else sql
        if not isinstance(text, str):
            return  # composed by the driver: what it does is noticed after the revision
        if sql_text.read(text).ends_transaction:
            self.refuse(EndsTransaction())
        if self.rehearses and sql_text.outlives_rollback(text):
            self.refuse(NotRehearsable())

    def check_end(self, *_: object) -> None:
        """Check that it is the engine that commits or rolls back.

        Raises:
            EndsTransaction: It is the revision.
        """
        if self.is_watching:
            self.refuse(EndsTransaction())

    def note(self, refusal: Exception) -> None:
        """Remember why the revision fails, even if it catches what it is then raised."""
        self._refusal = self._refusal or refusal

    def refuse(self, refusal: Exception) -> None:
        """Raise *refusal*, and remember it."""
        self.note(refusal)
        raise refusal
