"""Databases as SQLite files in a folder."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Collection
from functools import partial
from pathlib import Path
from typing import Any

from tenantry.db import inspection, write_fence
from tenantry.db.copying.survey import check_sqlite
from tenantry.db.database import WAIT_SECONDS_MAX, Budget, Database
from tenantry.db.outage_errors import ServerAway
from tenantry.db.servers import (
    FENCE_SECONDS_MAX,
    PREFIX,
    PROBE_SECONDS_MAX,
    Server,
    checked_name,
    is_generated,
)
from tenantry.db.sessions import STATEMENT_SECONDS_DEFAULT, DatabaseUnavailable, Session
from tenantry.db.sqlite import files
from tenantry.db.sqlite.connections import BUSY_TIMEOUT_SECONDS, SqliteFile
from tenantry.db.urls import SQLITE_PREFIX
from tenantry.kit import private
from tenantry.kit.stopping import run_in_thread, start_thread

# One for each file: SQLite has one writer, so more threads would only wait for its lock.
SQLITE_CONNECTIONS_MAX = 1


class SqliteFolder(Server):
    """A folder of SQLite files, with two levels of subfolders for up to some 100,000 files.

    Args:
        folder: Created if it is missing.
        budget: The limit of files that this process keeps open.
        synchronous: ``FULL`` or ``NORMAL``.
        statement_seconds: The deadline of each statement of a request.
        wait_seconds: How long a request waits for the connection to its file.
    """

    folder: Path
    timeout_seconds = BUSY_TIMEOUT_SECONDS
    can_restart = False

    def __init__(
        self,
        folder: Path,
        budget: Budget,
        *,
        synchronous: str,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
        wait_seconds: float = WAIT_SECONDS_MAX,
    ) -> None:
        self.folder = folder
        self.budget = budget
        self._synchronous = synchronous
        self._statement_seconds = statement_seconds
        self._wait_seconds = wait_seconds
        self._probing: asyncio.Future[None] | None = None

    def path(self, name: str) -> Path:
        """Return the file of the database *name*."""
        return Path(self.url(name).removeprefix(SQLITE_PREFIX))

    def url(self, name: str) -> str:
        """Return the URL of the database *name*."""
        # The end of a UUIDv7 is random, so files spread evenly; its beginning is the time.
        name = checked_name(name)
        return f"{SQLITE_PREFIX}{self.folder}/{name[-2:]}/{name[-4:-2]}/{name}.db"

    def url_before(self, name: str) -> str:
        """Return the URL that the database *name* will have."""
        return self.url(name)

    async def probe(self) -> None:
        """Check that the folder is not empty, and that a file can be written to it."""
        # A system call on a network file system that hangs cannot be ended: its thread is awaited
        # again, so that there is only one.
        probing = self._probing
        if probing is None or probing.done():
            probing = self._probing = start_thread(partial(files.check_folder, self.folder))
            probing.add_done_callback(_retrieve)
        if not (await asyncio.wait({probing}, timeout=PROBE_SECONDS_MAX))[0]:
            raise ServerAway
        try:
            probing.result()
        except OSError as error:
            raise ServerAway from error

    def open(self, name: str) -> Database[Any]:
        """Return the database *name*."""
        file = SqliteFile(
            self.path(name),
            synchronous=self._synchronous,
            statement_seconds=self._statement_seconds,
        )
        return Database(
            file.connect,
            self.budget,
            SQLITE_CONNECTIONS_MAX,
            wait_seconds_max=self._wait_seconds,
        )

    async def create(self, name: str) -> None:
        """Create the empty database *name*."""
        # A thread that is not awaited could create the file after it was removed.
        await run_in_thread(lambda _stop: files.create(self.path(name)))

    async def copy(self, template: str, name: str) -> bool:
        """Create the database *name* as a copy of *template*; return False if that is missing."""
        return await run_in_thread(lambda _stop: files.copy(self.path(template), self.path(name)))

    @contextlib.asynccontextmanager
    async def filling(self, name: str) -> AsyncIterator[Session[Any]]:
        """Open a session on the database *name*, and sync the whole file at the end."""
        path = self.path(name)
        connection = await SqliteFile(path, synchronous="OFF").connect()
        try:
            yield connection
        finally:
            await connection.close()
        await asyncio.to_thread(files.sync, path)

    async def publish(self, draft: str, template: str) -> None:
        """Rename the database *draft* to *template*, and replace an existing one."""
        await asyncio.to_thread(files.move, self.path(draft), self.path(template))

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""
        pattern = f"*/*/{checked_name(prefix)}*.db"
        found = await asyncio.to_thread(lambda: list(self.folder.glob(pattern)))
        return [path.stem for path in found]

    async def own_names(self) -> set[str]:
        """Return the generated names of the files."""
        pattern = f"*/*/{PREFIX}*.db*"
        found = await asyncio.to_thread(lambda: list(self.folder.glob(pattern)))
        return {name for path in found if is_generated(name := path.name.partition(".")[0])}

    def removal(self, name: str) -> str:
        """Return a command of the shell."""
        return f"rm -f -- {shlex.quote(str(self.path(name)))}*"

    async def public_names(self) -> list[str]:
        """Return nothing: a file has no roles."""
        return []

    async def missing(self, names: Collection[str]) -> set[str]:
        """Return the *names* that have no file."""
        return await asyncio.to_thread(
            lambda: {name for name in names if not self.path(name).exists()}
        )

    async def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Return the sizes of the files, without their logs."""

        def measure() -> dict[str, int]:
            found = {}
            for name in names:
                with contextlib.suppress(OSError):
                    found[name] = self.path(name).stat().st_size
            return found

        return await asyncio.to_thread(measure)

    async def connections_allowed(self) -> int:
        """Return `sys.maxsize`: files have no limit of connections."""
        return sys.maxsize

    async def limited(self) -> dict[str, int]:
        """Return nothing: files have no limit of connections."""
        return {}

    async def close_unused(self) -> None:
        """Do nothing: no other process needs the files that this one has open."""

    async def drop(self, name: str) -> None:
        """Drop the database *name*."""
        await asyncio.to_thread(files.remove, self.path(name))

    async def reject_writes(self, name: str, *, wait_seconds: float = FENCE_SECONDS_MAX) -> None:
        """Make the database *name* reject every write."""
        path = self.path(name)
        await run_in_thread(lambda _stop: write_fence.fence_sqlite(path, wait_seconds=wait_seconds))

    async def accept_writes(self, name: str) -> None:
        """Let the database *name* accept writes again."""
        await run_in_thread(lambda _stop: write_fence.lift_sqlite(self.path(name)))

    async def stop_following(self, name: str, slot: str) -> None:
        """Do nothing: a file has no replication slots."""

    async def check_listed(self, database: str) -> None:
        """Do nothing: a folder has no list."""

    def foreign_url(self, database: str) -> str:
        """Return the URL of the file at the path *database*."""
        return f"{SQLITE_PREFIX}{database}"

    def adopted_name(self, database: str, generated: str) -> str:
        """Return *generated*: `adopt_database` makes a copy."""
        del database
        return generated

    async def adopt_database(self, database: str, name: str) -> None:
        """Copy the file at the path *database*, and check the copy.

        Raises:
            SourceChanged: Another process wrote to it.
            DatabaseDamaged: No backup and no move of it would succeed.
        """
        path = self.path(name)
        await run_in_thread(partial(inspection.copy_sqlite, Path(database), path))
        try:
            await start_thread(partial(check_sqlite, path))
        except DatabaseUnavailable as error:
            raise inspection.DatabaseDamaged from error
        await asyncio.to_thread(private.sync_folder, path.parent)


def _retrieve(probing: "asyncio.Future[None]") -> None:
    """Retrieve the error of a probe that nothing awaits any longer: else asyncio logs it."""
    if not probing.cancelled():
        probing.exception()
