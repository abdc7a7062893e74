"""Bring one database to the head of its streams."""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.apply import Migrator, Moved, open_migrator
from tenantry.db.revisions import BadStream
from tenantry.db.scripts import Applied, Limits, Position, Script, Streams, bootstrap
from tenantry.fleet.failures import is_lock
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id

LOCK_TRIES_MAX = 3
LOCK_PAUSE_SECONDS_MAX = 1.0


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long the migration of one database may take, and wait.

    Attributes:
        connect_seconds: For a connection.
        deadline_seconds: For everything.
        lock_ms: At one lock, with the tenant's traffic behind.
    """

    connect_seconds: float
    deadline_seconds: float
    lock_ms: int


@dataclass(frozen=True, slots=True)
class Migrated:
    """What became of one database.

    Attributes:
        applied: What the run has applied there, by the database's own log: after a crash it
            may be more than this attempt did, and after a failure it is what stayed.
        position: Where it now stands.
        error: Why it is not at the head; None when it is.
    """

    applied: list[Applied]
    position: Position
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Looked:
    """What a run would find in one database, and would do there.

    Attributes:
        position: Where it stands.
        pending: What would be applied, in order; nothing when that cannot be told.
        error: Why it cannot be told; or why it failed when it was rehearsed.
    """

    position: Position
    pending: list[Applied]
    error: Exception | None = None


class Scripts:
    """The scripts of one run: each made once, however many tenants need it.

    Args:
        streams: As they are when the run begins.
    """

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self._lock = asyncio.Lock()
        self._scripts: dict[tuple[str, Position], Script] = {}

    async def head(self) -> Position:
        """Return where every database should stand.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        async with self._lock:
            return await asyncio.to_thread(lambda: self.streams.head)

    async def know(self, head: str) -> bool:
        """Tell whether these streams know *head*, as a `Position` is written."""
        async with self._lock:
            try:
                return await asyncio.to_thread(self.streams.know, head)
            except BadStream:
                return False

    async def get(self, dialect: sa.Dialect, start: Position) -> Script:
        """Return the script from *start* to the head.

        Raises:
            BadStream, UnknownRevision: There is none.
        """
        key = (dialect.name, start)
        async with self._lock:
            if key not in self._scripts:
                self._scripts[key] = await asyncio.to_thread(Script, dialect, self.streams, start)
            return self._scripts[key]


class SchemaMigrator:
    """Migrates databases.

    Args:
        threads: Where SQLite runs; not closed here.
        patience: For each database.
    """

    def __init__(self, threads: Executor, patience: Patience) -> None:
        self._threads = threads
        self._patience = patience

    async def migrate(
        self, url: str, scripts: Scripts, *, run_id: UUID, now: Callable[[], datetime]
    ) -> Migrated:
        """Bring the database at *url* to the head, and tell what became of it.

        Raises:
            Exception: Whatever the drivers raise, when not even that can be told.
        """
        async with asyncio.timeout(self._patience.deadline_seconds):
            migrator = await self._open(url, scripts)
            try:
                error = await self._attempt(migrator, scripts, run_id, now)
                try:
                    applied = await migrator.applied(run_id)
                    return Migrated(applied, await migrator.position(), error)
                except Exception as unreadable:
                    raise error or unreadable from unreadable
            finally:
                await migrator.close()

    async def recall(self, url: str, scripts: Scripts, *, run_id: UUID) -> Migrated:
        """Tell what a run has done to the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when that cannot be told.
        """
        async with asyncio.timeout(self._patience.deadline_seconds):
            migrator = await self._open(url, scripts)
            try:
                return Migrated(await migrator.applied(run_id), await migrator.position(), None)
            finally:
                await migrator.close()

    async def look(self, url: str, scripts: Scripts) -> Looked:
        """Tell what is pending in the database at *url*, and change nothing.

        Raises:
            Exception: Whatever the drivers raise, when not even its position can be told.
        """
        async with asyncio.timeout(self._patience.deadline_seconds):
            migrator = await self._open(url, scripts)
            try:
                return await self._look(migrator, scripts)
            finally:
                await migrator.close()

    async def rehearse(self, url: str, scripts: Scripts) -> Looked:
        """Do what `migrate` does to the database at *url*, and take it back.

        It takes the same locks, in the same order, for as long.

        Raises:
            Exception: Whatever the drivers raise, when not even its position can be told.
        """
        async with asyncio.timeout(self._patience.deadline_seconds):
            migrator = await self._open(url, scripts)
            try:
                return await self._rehearse(migrator, scripts)
            finally:
                await migrator.close()

    async def initialise(self, url: str, scripts: Scripts, *, run_id: UUID, now: datetime) -> None:
        """Make the database at *url* ready for scripts, and bring it to the head.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        migrator = await self._open(url, scripts)
        try:
            await migrator.play(bootstrap(migrator.dialect))
            await self._to_head(migrator, scripts, run_id, lambda: now)
        finally:
            await migrator.close()

    async def position(self, url: str, streams: Streams) -> Position:
        """Return where the database at *url* stands.

        Raises:
            Exception: Whatever the drivers raise.
        """
        async with asyncio.timeout(self._patience.deadline_seconds):
            migrator = await self._open(url, Scripts(streams))
            try:
                return await migrator.position()
            finally:
                await migrator.close()

    async def _open(self, url: str, scripts: Scripts) -> Migrator:
        streams = scripts.streams
        return await open_migrator(
            url,
            self._threads,
            user_table=streams.user_table if streams.user else None,
            timeout_seconds=self._patience.connect_seconds,
        )

    async def _attempt(
        self, migrator: Migrator, scripts: Scripts, run_id: UUID, now: Callable[[], datetime]
    ) -> Exception | None:
        try:
            await self._to_head(migrator, scripts, run_id, now)
        except Exception as error:  # noqa: BLE001 - a revision can raise anything; it is the outcome
            return error
        return None

    async def _to_head(
        self, migrator: Migrator, scripts: Scripts, run_id: UUID, now: Callable[[], datetime]
    ) -> None:
        tries = self._tries()
        head = await scripts.head()
        while (start := await migrator.position()) != head:
            script = await scripts.get(migrator.dialect, start)
            async with tries:
                await migrator.play(script.transaction(run_id, now(), tries.limits))

    async def _look(self, migrator: Migrator, scripts: Scripts) -> Looked:
        position = await migrator.position()
        try:
            if position == await scripts.head():
                return Looked(position, [])
            script = await scripts.get(migrator.dialect, position)
        except Unavailable as error:  # the revisions cannot be read, or do not lead on from here
            return Looked(position, [], error)
        return Looked(position, script.pending)

    async def _rehearse(self, migrator: Migrator, scripts: Scripts) -> Looked:
        tries = self._tries()
        while (looked := await self._look(migrator, scripts)).pending:
            script = await scripts.get(migrator.dialect, looked.position)
            try:
                async with tries:
                    await migrator.play(script.rehearsal(new_id(), utc_now(), tries.limits))
                    return looked
            except Exception as error:  # noqa: BLE001 - a revision can raise anything; it is the outcome
                return replace(looked, error=error)
        return looked

    def _tries(self) -> "_Tries":
        return _Tries(self._patience, monotonic_seconds() + self._patience.deadline_seconds)


class _Tries:
    """Tells which errors of a script are worth another try, and waits before it.

    Args:
        patience: Of the migration.
        ends: When it must have ended.
    """

    def __init__(self, patience: Patience, ends: float) -> None:
        self._patience = patience
        self._ends = ends
        self._failed = 0

    @property
    def limits(self) -> Limits:
        """How long a script that is sent now may wait for locks."""
        left_ms = max(1, int((self._ends - monotonic_seconds()) * 1000))
        return Limits(swap_ms=left_ms, lock_ms=self._patience.lock_ms)

    async def __aenter__(self) -> None:
        """Begin a try."""

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: object) -> bool:
        """Return whether the error is worth another try."""
        if isinstance(error, Moved):  # by another run, which is as good: look where it is now
            return True
        if not isinstance(error, Exception):
            return False
        self._failed += 1
        if self._failed >= LOCK_TRIES_MAX or not is_lock(error):
            return False
        # Whoever holds the lock gets a moment, and two that collided part ways.
        await asyncio.sleep(random.uniform(0, LOCK_PAUSE_SECONDS_MAX))  # noqa: S311
        return True
