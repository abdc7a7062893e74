"""Play scripts on a database: over asyncpg, or over sqlite3 in a thread."""

import asyncio
import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.db import guests
from tenantry.db.postgres import CLOSE_SECONDS_MAX
from tenantry.db.revisions import BASE, Revision, upgrade_live
from tenantry.db.scripts import (
    READ_APPLIED,
    READ_VERSION,
    Applied,
    Command,
    Position,
    Step,
    UserVersion,
)
from tenantry.db.sqlite import file_uri
from tenantry.db.statements import POSTGRESQL, SQLITE, Compiled
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable

Answer = TypeVar("Answer")


class Moved(Exception):
    """Another run has moved the database since its version was read."""


class NoTable(Exception):
    """There is no such table."""


class NoVersion(Unavailable):
    """This is no database of Tenantry's: its version table is missing or damaged."""


class SeveralVersions(Unavailable):
    """The database stands at several revisions at once: merge them first."""


class TransactionEnded(Unavailable):
    """A revision ended the transaction it ran in, so part of it may have stayed."""


class Migrator(ABC):
    """One connection that migrates one database.

    Args:
        user_table: The version table of the user's stream; None when there is none.
    """

    dialect: sa.Dialect

    def __init__(self, user_table: str | None) -> None:
        self._user = UserVersion(user_table) if user_table else None

    async def position(self) -> Position:
        """Return where the database stands.

        Raises:
            NoVersion, SeveralVersions: It cannot be told.
        """
        try:
            rows = await self._fetch(READ_VERSION.on(self.dialect), {})
        except NoTable as error:
            raise NoVersion from error
        if len(rows) != 1:
            raise NoVersion
        return Position(str(rows[0][0]), await self._user_version())

    async def applied(self, run_id: UUID) -> list[Applied]:
        """Return what a run has applied here, in order, by the database's own log."""
        rows = await self._fetch(READ_APPLIED.on(self.dialect), {"run": run_id})
        return [Applied(*row) for row in rows]

    @abstractmethod
    async def play(self, steps: Sequence[Step]) -> None:
        """Send *steps*, one after the other.

        Raises:
            Moved: A swap changed no row. Nothing is left behind, as after any error.
            TransactionEnded: A revision committed or rolled back by itself.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    async def _fetch(self, compiled: Compiled, values: dict[str, object]) -> Sequence[Any]:
        """Return rows, or raise `NoTable`."""

    async def _user_version(self) -> str | None:
        if self._user is None:
            return None
        try:
            rows = await self._fetch(self._user.read.on(self.dialect), {})
        except NoTable:
            return BASE
        if len(rows) > 1:
            raise SeveralVersions
        return str(rows[0][0]) if rows else BASE


async def open_migrator(
    url: str, threads: Executor, *, user_table: str | None, timeout_seconds: float
) -> Migrator:
    """Connect to the database at *url*.

    Args:
        url: Where it is.
        threads: Where SQLite runs (sqlite3 is synchronous, and faster here than aiosqlite),
            and revisions that run live.
        user_table: The version table of the user's stream; None when there is none.
        timeout_seconds: How long to wait for the connection.
    """
    path = sqlite_path(url)
    if path is None:
        raw = await asyncpg.connect(
            url, timeout=timeout_seconds, server_settings={"application_name": "tenantry-migrate"}
        )
        return _PostgresMigrator(raw, threads, user_table)
    loop = asyncio.get_running_loop()
    file = await loop.run_in_executor(threads, _connect_sqlite, file_uri(path))
    return _SqliteMigrator(file, threads, user_table)


class _PostgresMigrator(Migrator):
    dialect = POSTGRESQL

    def __init__(
        self,
        raw: "asyncpg.Connection[asyncpg.Record]",
        threads: Executor,
        user_table: str | None,
    ) -> None:
        super().__init__(user_table)
        self._raw = raw
        self._threads = threads

    async def play(self, steps: Sequence[Step]) -> None:
        try:
            for step in steps:
                await self._send(step)
        except Exception:
            # Without a connection there is nothing to roll back, and the first error counts.
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await self._raw.execute("ROLLBACK")
            raise

    async def close(self) -> None:
        try:
            await self._raw.close(timeout=CLOSE_SECONDS_MAX)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._raw.terminate()

    async def _fetch(self, compiled: Compiled, values: dict[str, object]) -> Sequence[Any]:
        try:
            return await self._raw.fetch(compiled.sql, *compiled.arguments(values))
        except asyncpg.UndefinedTableError as error:
            raise NoTable from error

    async def _send(self, step: Step) -> None:
        if isinstance(step, Revision):
            await guests.on_postgresql(self._raw, self._threads, partial(upgrade_live, step))
            if not self._raw.is_in_transaction():
                raise TransactionEnded
        else:
            status = await self._raw.execute(step.sql, *step.arguments)
            if step.guards and int(status.rpartition(" ")[2]) != 1:
                raise Moved


class _SqliteMigrator(Migrator):
    dialect = SQLITE

    def __init__(self, raw: sqlite3.Connection, threads: Executor, user_table: str | None) -> None:
        super().__init__(user_table)
        self._raw = raw
        self._threads = threads
        self._running: asyncio.Future[Any] | None = None
        self._stopped = False

    async def play(self, steps: Sequence[Step]) -> None:
        await self._in_thread(lambda: self._play(steps))

    async def close(self) -> None:
        if self._running is None or self._running.done():
            await self._in_thread(self._raw.close)
        else:  # it did not heed the interruption, and closes when it comes to its senses
            self._running.add_done_callback(lambda _: self._raw.close())

    async def _fetch(self, compiled: Compiled, values: dict[str, object]) -> Sequence[Any]:
        try:
            return await self._in_thread(
                lambda: self._raw.execute(compiled.sql, compiled.arguments(values)).fetchall()
            )
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                raise NoTable from error
            raise

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._running = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; its statement can, and its next step is refused,
            # so that nothing is committed after somebody has called it a failure.
            self._stopped = True
            running.add_done_callback(_forget)
            self._raw.interrupt()
            await asyncio.wait([running], timeout=guests.STOP_SECONDS_MAX)
            raise

    def _play(self, steps: Sequence[Step]) -> None:
        try:
            for step in steps:
                self._send(step)
        except BaseException:
            self._raw.rollback()
            raise

    def _send(self, step: Step) -> None:
        if self._stopped:
            raise TimeoutError
        if isinstance(step, Revision):
            upgrade_live(step, guests.on_sqlite(self._raw))
            if not self._raw.in_transaction:
                raise TransactionEnded
        else:
            self._execute(step)

    def _execute(self, command: Command) -> None:
        cursor = self._raw.execute(command.sql, command.arguments)
        found = len(cursor.fetchall()) if cursor.description else cursor.rowcount
        if command.guards and found != 1:
            raise Moved


def _forget(running: "asyncio.Future[Any]") -> None:
    """Look at the outcome that nobody waits for, so that nobody complains that it was lost."""
    if not running.cancelled():
        running.exception()


def _connect_sqlite(uri: str) -> sqlite3.Connection:
    # Foreign keys stay off, as they are for Alembic itself: its batch mode drops the old
    # table, and would delete what refers to it.
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
