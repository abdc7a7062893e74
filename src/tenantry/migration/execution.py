"""Play scripts on a database: over asyncpg, or over sqlite3 in a thread."""

import asyncio
import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.db import open_files
from tenantry.db.open_files import OpenFile
from tenantry.db.postgres import CLOSE_SECONDS_MAX
from tenantry.db.sqlite import file_uri
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable
from tenantry.migration import live, schema_state, sql_text
from tenantry.migration.autocommit import upgrade_outside
from tenantry.migration.dialects import SQLITE_GUEST, EndsTransaction, PostgresGuest, postgres_guest
from tenantry.migration.schema_state import Applied, Found, SchemaRevision
from tenantry.migration.statements import Command, Outside, Step, messages
from tenantry.migration.streams import BASE, Revision, RevisionFailed, upgrade_live

COMMIT = Command("COMMIT")

Answer = TypeVar("Answer")


class NoVersion(Unavailable):
    """This is no database of Tenantry's: its version table is missing or damaged."""


class SeveralVersions(Unavailable):
    """The database stands at several revisions at once: merge them first."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What a database says of itself.

    Attributes:
        revision: Where it stands.
        applied: What the run that was asked about has applied there, in order.
    """

    revision: SchemaRevision
    applied: list[Applied]


class DatabaseConnection(ABC):
    """One connection that migrates one database.

    Args:
        user_table: The version table of the user's stream; None when there is none.
    """

    def __init__(self, user_table: str | None) -> None:
        self._user_table = user_table

    @property
    @abstractmethod
    def dialect(self) -> sa.Dialect:
        """The engine, as revisions see it."""

    @abstractmethod
    async def read_state(
        self, run_id: UUID | None = None, *, leave_at: SchemaRevision | None = None
    ) -> SchemaState:
        """Return where the database stands, and what a run has applied, by its own log.

        Args:
            run_id: The run; None when it has applied nothing yet, or nobody asks.
            leave_at: Where nothing is left to do, so that the connection may be closed.

        Raises:
            NoVersion, SeveralVersions: It cannot be told.
        """

    @abstractmethod
    async def play(self, steps: Sequence[Step], *, leaves: bool = False) -> None:
        """Send *steps*, one after the other. After an error, nothing is left behind.

        Args:
            steps: What to send.
            leaves: When it is done nothing is left to do, so the connection may be closed.

        Raises:
            RevisionFailed: A revision raised something.
            SchemaMoved: A guard found something else than it expected.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, at the latest by cutting it."""


async def open_migrator(
    url: str, threads: Executor, *, user_table: str | None, timeout_seconds: float
) -> DatabaseConnection:
    """Return what migrates the database at *url*.

    Args:
        url: Where it is.
        threads: Where SQLite runs (sqlite3 is synchronous, and faster here than aiosqlite),
            and revisions that run live.
        user_table: The version table of the user's stream; None when there is none.
        timeout_seconds: How long to wait for the connection.
    """
    path = sqlite_path(url)
    if path is not None:
        return _SqliteMigrator(path, threads, user_table)
    raw = await asyncpg.connect(
        url, timeout=timeout_seconds, server_settings={"application_name": "tenantry-migrate"}
    )
    return _PostgresMigrator(raw, threads, user_table)


class _PostgresMigrator(DatabaseConnection):
    def __init__(
        self,
        raw: "asyncpg.Connection[asyncpg.Record]",
        threads: Executor,
        user_table: str | None,
    ) -> None:
        super().__init__(user_table)
        self._raw = raw
        self._threads = threads
        self._host: live.PostgresHost | None = None

    @property
    def dialect(self) -> PostgresGuest:
        version = self._raw.get_server_version()
        return postgres_guest((version.major, version.minor))

    async def read_state(
        self, run_id: UUID | None = None, *, leave_at: SchemaRevision | None = None
    ) -> SchemaState:
        del leave_at
        try:
            rows = await self._find(self._user_table, run_id)
        except asyncpg.UndefinedTableError:
            try:
                rows = await self._find(None, run_id)
            except asyncpg.UndefinedTableError as error:
                raise NoVersion from error
        return _standing(rows, has_user=self._user_table is not None)

    async def play(self, steps: Sequence[Step], *, leaves: bool = False) -> None:
        del leaves
        try:
            for step in messages(steps):
                await self._send(step)
        except Exception:
            # Without a connection there is nothing to roll back, and the first error counts.
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await self._raw.execute("ROLLBACK; SELECT pg_advisory_unlock_all()")
            raise

    async def close(self) -> None:
        try:
            await self._raw.close(timeout=CLOSE_SECONDS_MAX)
        except BaseException as error:
            self._raw.terminate()
            if not isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                raise

    async def _find(self, user_table: str | None, run_id: UUID | None) -> list[Found]:
        compiled = schema_state.find(user_table, has_log=run_id is not None).postgresql
        rows = await self._raw.fetch(compiled.sql, *compiled.arguments({"run": run_id}))
        return [Found(*row) for row in rows]

    async def _send(self, step: Step) -> None:
        if isinstance(step, Command):
            await self._command(step)
        elif isinstance(step, Revision):
            await self._guest(partial(upgrade_live, step), holds=True)
        else:
            await self._guest(partial(upgrade_outside, step), holds=False)

    async def _guest(self, work: Callable[[sa.Connection], None], *, holds: bool) -> None:
        if self._host is None:
            self._host = live.PostgresHost(self._raw, self.dialect.over(self._raw), self._threads)
        await self._host.run(work, holds=holds)

    async def _command(self, command: Command) -> None:
        try:
            await self._execute(command)
        except Exception as error:
            if command.revision is None:
                raise
            raise RevisionFailed(command.revision) from error

    async def _execute(self, command: Command) -> None:
        held = self._host.take_held() if self._host else []
        if held and command.has_parameters:
            await self._raw.execute(sql_text.joined(*held))
            held = []
        if command.many:
            await self._raw.executemany(command.sql, command.rows)
            return
        status = await self._raw.execute(sql_text.joined(*held, command.sql), *command.rows[0])
        if command.guard and status.rpartition(" ")[2] != "1":
            raise command.guard


class _SqliteMigrator(DatabaseConnection):
    dialect = SQLITE_GUEST

    def __init__(self, path: Path, threads: Executor, user_table: str | None) -> None:
        super().__init__(user_table)
        self._path = path
        self._threads = threads
        self._raw: sqlite3.Connection | None = None
        self._file: OpenFile | None = None
        self._running: asyncio.Future[Any] | None = None
        self._stopped = False
        self._in_revision = False
        self._was_refused = False

    async def read_state(
        self, run_id: UUID | None = None, *, leave_at: SchemaRevision | None = None
    ) -> SchemaState:
        return await self._in_thread(lambda: self._look(run_id, leave_at))

    async def play(self, steps: Sequence[Step], *, leaves: bool = False) -> None:
        await self._in_thread(lambda: self._play(steps, leaves=leaves))

    async def close(self) -> None:
        if self._raw is None:
            return
        if self._running is None or self._running.done():
            await self._in_thread(self._close)
        else:  # it did not heed the interruption, and closes when it comes to its senses
            self._running.add_done_callback(lambda _: self._close())

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
            # It may close the connection at this moment, and then nothing is to be interrupted.
            with contextlib.suppress(sqlite3.ProgrammingError):
                if (raw := self._raw) is not None:
                    raw.interrupt()
            await asyncio.wait([running], timeout=live.STOP_SECONDS_MAX)
            raise

    def _look(self, run_id: UUID | None, leave_at: SchemaRevision | None) -> SchemaState:
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
        standing = _standing(rows, has_user=self._user_table is not None)
        if standing.revision == leave_at:
            self._close()
        return standing

    def _open(self) -> sqlite3.Connection:
        if self._file is not None and not self._file.is_there:
            self._close()
        if self._raw is None:
            self._file = open_files.find(self._path)
            # Foreign keys stay off, as they are for Alembic itself: its batch mode drops the
            # old table, and would delete what refers to it.
            self._raw = sqlite3.connect(
                file_uri(self._path), uri=True, isolation_level=None, check_same_thread=False
            )
        return self._raw

    def _close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _find(
        self, raw: sqlite3.Connection, user_table: str | None, run_id: UUID | None
    ) -> list[Found]:
        compiled = schema_state.find(user_table, has_log=run_id is not None).sqlite
        return [
            Found(*row) for row in raw.execute(compiled.sql, compiled.arguments({"run": run_id}))
        ]

    def _play(self, steps: Sequence[Step], *, leaves: bool) -> None:
        raw = self._open()
        SQLITE_GUEST.prepare(raw)
        raw.set_authorizer(self._authorise)
        try:
            for step in steps:
                if step == COMMIT and self._file is not None:
                    self._file.check()
                self._send(raw, step)
        except BaseException:
            raw.rollback()
            raise
        finally:
            raw.set_authorizer(None)
        if leaves:
            self._close()

    def _authorise(self, action: int, *_: object) -> int:
        """Refuse to let a revision end our transaction."""
        if action == sqlite3.SQLITE_TRANSACTION and self._in_revision:
            self._was_refused = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _send(self, raw: sqlite3.Connection, step: Step) -> None:
        if self._stopped:
            raise TimeoutError
        assert not isinstance(step, Outside)  # on SQLite nothing needs to be
        name = step.revision if isinstance(step, Command) else step.name
        if name is None:
            self._execute(raw, step)
            return
        self._in_revision = True
        try:
            self._execute(raw, step)
        except Exception as error:
            if self._was_refused:
                raise RevisionFailed(name) from EndsTransaction()
            if isinstance(error, RevisionFailed):
                raise
            raise RevisionFailed(name) from error
        finally:
            self._in_revision = False
        if self._was_refused:
            raise RevisionFailed(name) from EndsTransaction()

    def _execute(self, raw: sqlite3.Connection, step: Step) -> None:
        if isinstance(step, Revision):
            upgrade_live(step, live.on_sqlite(raw), contextlib.nullcontext)
            return
        assert isinstance(step, Command)
        if step.many:
            raw.executemany(step.sql, step.rows)
            return
        cursor = raw.execute(step.sql, step.rows[0])
        found = len(cursor.fetchall()) if cursor.description else cursor.rowcount
        if step.guard and found != 1:
            raise step.guard


def _standing(rows: Sequence[Found], *, has_user: bool) -> SchemaState:
    own = [row.revision for row in rows if row.source == "own"]
    user = [row.revision for row in rows if row.source == "user"]
    if len(own) != 1:
        raise NoVersion
    if len(user) > 1:
        raise SeveralVersions
    position = SchemaRevision(own[0], (user or [BASE])[0] if has_user else None)
    return SchemaState(position, schema_state.applied_in(rows))


def _is_no_table(error: sqlite3.OperationalError) -> bool:
    return str(error).startswith("no such table")


def _forget(running: "asyncio.Future[Any]") -> None:
    """Look at the outcome that nobody waits for, so that nobody complains that it was lost."""
    if not running.cancelled():
        running.exception()
