"""Sessions: run statements on one database, alone or in a transaction."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tenantry.db import outage_errors
from tenantry.db.statements import Row, Statement
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Conflict, Unavailable

LOST_MAX = 3  # retries of one operation after a `TransactionLost`
# The pause before a read is repeated on a new connection, doubled each time.
RECONNECT_PAUSE_SECONDS = 0.1
STATEMENT_SECONDS_DEFAULT = 5.0
# A batch of statements is sent at once; its deadline is extended by this for each row.
ROW_SECONDS = 0.001

Result = TypeVar("Result")
Kind = TypeVar("Kind")
"""The kind of database. mypy rejects a session on a tenant's where the catalog's is needed."""


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached, or is busy."""


class ServerFull(DatabaseUnavailable):
    """The database server has no connection left for Tenantry."""


class DatabaseReplaced(DatabaseUnavailable):
    """The database was replaced while the connection had it open.

    The statement was not run, so it can be run on a new connection.
    """


class WritesRejected(DatabaseUnavailable):
    """The database rejects writes: it is being moved or was moved, or its server is a standby."""


class StorageFull(DatabaseUnavailable):
    """The disk of the service is full, or nearly full: nothing more can be stored now."""

    def __init__(self, message: str | None = None, *, retry_after_seconds: int = 60) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)


class TransactionLost(DatabaseUnavailable):
    """Another transaction, such as a migration, held a lock; this one was rolled back."""


class RejectedByDatabase(Conflict):
    """A constraint or trigger that is not Tenantry's rejects the change; the log names it."""


async def retry_deadlock(work: Callable[[], Awaitable[Result]], *, is_read: bool = False) -> Result:
    """Return the result of *work*, and retry it up to `LOST_MAX` times after a deadlock.

    A migration and a request both lock several tables. If each waits for a lock of the other,
    the server rolls one of the two transactions back.

    Args:
        work: It is called again after a `TransactionLost`. So it must write to another database
            last, just before its transaction ends.
        is_read: Whether it changes nothing: see `wait_to_retry`.

    Raises:
        TransactionLost: The last retry failed, too.
        Exception: Any other error of *work*.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return await work()
        except DatabaseUnavailable as error:
            await wait_to_retry(error, tries, is_read=is_read)


async def wait_to_retry(error: DatabaseUnavailable, tries: int, *, is_read: bool) -> None:
    """Return when the work that raised *error* may be tried again; see `retry_deadlock`.

    Args:
        error: What the last try raised.
        tries: How often it was tried.
        is_read: Whether it has changed nothing. Then it is also repeated, after a pause with
            jitter, when the connection was refused or lost, as happens while a server restarts.

    Raises:
        DatabaseUnavailable: *error*, because the work must not be tried again.
    """
    if tries > LOST_MAX:
        raise error
    if isinstance(error, TransactionLost):
        return  # without a pause: the retry waits for the lock of the other transaction
    if not is_read or error.__cause__ is None or not outage_errors.is_lost(error.__cause__):
        raise error
    await asyncio.sleep(backoff_seconds(RECONNECT_PAUSE_SECONDS, tries))


class StatementDeadline:
    """Calls a function once when a statement of a connection has run for too long.

    Setting and cancelling a timer of the event loop costs as much as all other work on a short
    statement. So the timer is not cancelled when a statement ends. When it fires, it compares the
    clock with the deadline of the current statement, if there is one, and is set again.

    Attributes:
        due: The deadline of the current statement. Set it to None when the statement ends.
    """

    def __init__(self, seconds: float, on_passed: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_passed = on_passed
        self._loop = asyncio.get_running_loop()
        self.due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds_more: float = 0.0) -> None:
        """Begin a statement, which may take *seconds_more* than others."""
        self.due = monotonic_seconds() + self._seconds + seconds_more
        # A timer that is already set fires before this deadline, because no timer is set for
        # more than `seconds`.
        if self._timer is None:
            self._set_timer(self._seconds)

    def close(self) -> None:
        """End the statement and cancel the timer: the connection is closed."""
        self.due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.due is None:
            return
        left = self.due - monotonic_seconds()
        if left > 0:
            self._set_timer(min(left, self._seconds))
        else:
            self.due = None
            self._on_passed()


class Session(ABC, Generic[Kind]):
    """Runs statements on one database.

    Every method takes the statement's parameters by name. If a unique constraint is violated,
    it raises the statement's `Conflict`; if another constraint or a trigger rejects the change,
    `RejectedByDatabase`. If the database cannot be reached or is busy, it raises
    `DatabaseUnavailable`; its subclass `TransactionLost` means that nothing was changed and a
    retry may succeed.
    """

    async def fetch_one(self, statement: Statement[Row], **values: object) -> Row | None:
        """Return the first row, or None."""
        rows = await self.fetch(statement, values)
        return rows[0] if rows else None

    def fetch_all(
        self, statement: Statement[Row], **values: object
    ) -> Coroutine[Any, Any, list[Row]]:
        """Return every row as a Struct; an empty list if the statement has no row type."""
        return self.fetch(statement, values)

    async def execute(self, statement: Statement[Any], **values: object) -> None:
        """Run a statement that returns nothing."""
        await self.fetch(statement, values)

    @abstractmethod
    def fetch(
        self, statement: Statement[Row], values: Mapping[str, object]
    ) -> Coroutine[Any, Any, list[Row]]:
        """Return what `fetch_all` does; the parameters are *values*."""

    @abstractmethod
    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing once for each of *rows*: all of them, or none.

        They are sent to the database together, in one round trip.
        """


class Connection(Session[Any]):
    """One connection of a driver. It begins a transaction only with `begin_sql`.

    `execute_many` needs a transaction that has begun.

    Outside a transaction, each method raises `DatabaseReplaced` if another database has taken the
    place of the one that is open.
    """

    begin_sql = "BEGIN"
    is_silent = False
    """Whether the server did not answer a statement before its deadline."""

    @abstractmethod
    async def command(self, sql: str) -> None:
        """Run *sql* unchanged, without parameters: BEGIN, COMMIT, ROLLBACK."""

    @property
    @abstractmethod
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was not interrupted."""

    @abstractmethod
    def retire(self) -> None:
        """Make this idle connection unusable: its server has stopped answering."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""
