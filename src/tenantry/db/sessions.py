"""Sessions: run statements on one database, alone or in a transaction."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tenantry.db import outages
from tenantry.db.statements import Row, Statement
from tenantry.kit.errors import Unavailable

LOST_MAX = 3  # transactions of one operation that somebody else was in the way of
# The pause before a read is repeated on a new connection, doubled each time.
RECONNECT_PAUSE_SECONDS = 0.1
STATEMENT_SECONDS_DEFAULT = 5.0
# Statements of one batch go to the database together, and get this much more for each row.
ROW_SECONDS = 0.001

Result = TypeVar("Result")
Plane = TypeVar("Plane")
"""Which database: a session on the catalog is no session on a tenant's, and mypy knows."""


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached, or is busy."""


class TransactionLost(DatabaseUnavailable):
    """Another transaction, such as a migration, held a lock; this one was rolled back."""


async def retry_deadlock(work: Callable[[], Awaitable[Result]], *, is_read: bool = False) -> Result:
    """Return what *work* returns, although somebody may be in its way now and then.

    A migration and a request both lock several tables. If each waits for a lock of the other,
    the server cancels one of them.

    Args:
        work: Is done again after a `TransactionLost`, from its beginning. So what it writes to
            another database, it writes last before the end of its transaction.
        is_read: Whether it changes nothing. Then it is also repeated, after a pause, when the
            connection was refused or lost, as it is while a server restarts.

    Raises:
        TransactionLost: It was lost more than `LOST_MAX` times.
        Exception: Whatever else *work* raises.
    """
    for number in range(LOST_MAX):
        try:
            return await work()
        except TransactionLost:
            continue  # without a pause: it waits for the other's lock soon enough
        except DatabaseUnavailable as error:
            if not is_read or error.__cause__ is None or not outages.is_lost(error.__cause__):
                raise
            pause = RECONNECT_PAUSE_SECONDS * 2**number
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311
    return await work()


class Session(ABC, Generic[Plane]):
    """Runs statements on one database.

    Every method takes the statement's parameters by name. All of them raise the
    statement's own `Conflict` when a unique constraint is violated, and
    `DatabaseUnavailable` when the database cannot be reached or is busy: `TransactionLost`
    when nothing was done, and another try may succeed.
    """

    async def fetch_one(self, statement: Statement[Row], **values: object) -> Row | None:
        """Return the first row, if there is one."""
        rows = await self.fetch_all(statement, **values)
        return rows[0] if rows else None

    @abstractmethod
    async def fetch_all(self, statement: Statement[Row], **values: object) -> list[Row]:
        """Return every row."""

    @abstractmethod
    async def execute(self, statement: Statement[Any], **values: object) -> None:
        """Run a statement that returns nothing."""

    @abstractmethod
    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing, once for each of *rows*, all or none of them.

        They go to the database together, at the cost of one.
        """


class Connection(Session[Any]):
    """One connection of a driver. It is in no transaction until told so."""

    begin_sql = "BEGIN"
    is_silent = False
    """Whether the server did not answer a statement before its deadline."""

    @abstractmethod
    async def run(self, statement: Statement[Any], values: dict[str, object]) -> list[Any]:
        """Run *statement* and return its rows as its Structs, or nothing if it has none."""

    @abstractmethod
    async def run_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run *statement* once for each of *rows*, in a transaction that has begun."""

    @abstractmethod
    async def command(self, sql: str) -> None:
        """Run *sql* as it stands: to begin, to end, to set something."""

    @property
    @abstractmethod
    def is_reusable(self) -> bool:
        """Whether the connection is open, in no transaction, and was never cut short."""

    @property
    def is_attached(self) -> bool:
        """Whether the name of the database still leads to what this connection has open."""
        return True

    @abstractmethod
    def retire(self) -> None:
        """Make the connection, which is idle, unusable: its server has stopped answering."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""

    async def fetch_all(self, statement: Statement[Row], **values: object) -> list[Row]:
        """Return every row."""
        return await self.run(statement, values)

    async def execute(self, statement: Statement[Any], **values: object) -> None:
        """Run a statement that returns nothing."""
        await self.run(statement, values)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement that returns nothing, once for each of *rows*."""
        if rows:
            await self.run_many(statement, rows)
