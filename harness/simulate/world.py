"""What is outside of the catalog: the databases of the tenants, and their servers."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast
from uuid import UUID

from harness.simulate.clock import CLOCK
from tenantry.db.database import Budget
from tenantry.db.outage_errors import ServerAway
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.write_fence import DatabaseBusy
from tenantry.migration.lock_retries import RunUndone
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import BASE, Applied, SchemaRevision, SchemaState, Undo
from tenantry.migration.undo import MovedOn

SERVERS = ("default", "second")
TENANTS = 10
QUICK_SECONDS, SLOW_SECONDS = 0.2, 9.0
"""How long most migrations take, at most, and a few: longer than a worker may be silent."""
LOCK_SECONDS_MAX = 6.0
"""How long a migration waits for the transaction of another one before it fails."""
CREATE_SECONDS = 3.0
SLOW_SHARE = 0.05
LOST_ANSWER_SHARE = 0.05
RECEIVE_SECONDS, REFUSED_SHARE = 2.0, 0.1
"""How long the target of notifications takes, at most, and how often it refuses one."""


MISSING, FENCED = "The database does not exist.", "The database rejects writes."


class RevisionBroken(Exception):
    """The revision of a simulated tenant fails."""


class DatabaseMissing(Exception):
    """The database of a simulated tenant was dropped."""


def database_name(number: int) -> str:
    """Return the name of the database of a tenant."""
    return f"tenantry_{number:032x}"


class Entry(NamedTuple):
    """A revision that a run has applied, or undone.

    Attributes:
        run: The run.
        number: The place of the revision among all, from 0.
        undoes: The run that had applied it, if this one undoes that.
    """

    run: UUID
    number: int
    undoes: UUID | None = None


@dataclass
class TenantDatabase:
    """The database of a tenant.

    Attributes:
        log: What was applied and undone, in order.
        failures: How many more attempts fail.
        is_fenced: Whether it rejects writes, because it is being moved.
        writers: The processes with a transaction in it.
        closed: The runs that were undone in it, or have ended: they apply nothing more.
    """

    log: list[Entry] = field(default_factory=list)
    failures: int = 0
    is_fenced: bool = False
    writers: list[str] = field(default_factory=list)
    closed: set[UUID] = field(default_factory=set)

    @property
    def applied(self) -> list[Entry]:
        """What is applied now, in order."""
        return in_effect(self.log)

    @contextmanager
    def writing(self, process: str) -> Iterator[None]:
        """Have a transaction of a process in it in the block."""
        self.writers.append(process)
        try:
            yield
        finally:
            self.writers.remove(process)


@dataclass
class World:
    """All servers, with the databases of tenants and those that jobs make.

    Attributes:
        revisions: All revisions, in order.
        own_count: How many of them, the first ones, are Tenantry's own, and are never undone.
        started: Called when the migration of a tenant begins: the run, the database, the process.
        databases: Those that jobs have made and not dropped.
        dropped: Those that were dropped.
        late: Those that were made when they had been dropped before, with the process that did it.
        late_fences: The databases that were fenced by a process that had lost the move by then.
        changed: The jobs that have changed a tenant, and have not undone that.
        away_until: Until when each server is away.
        concurrency: How many tenants of each server a process that starts migrates at a time.
        slow_share: Of the migrations, how many are slow.
        slow_seconds: How long these take, at most.
        origins: The names of the databases of moved tenants, each with that of its first one.
        is_alive: Whether a process was not killed: what that had open is rolled back.
        holds_move: Whether a process holds a running move of a database.
        received: The ids of the notifications that their target has received.
        refuses: Whether that refuses some; each refusal doubles the pause before the next attempt.
    """

    chance: random.Random
    revisions: tuple[Applied, ...]
    own_count: int
    started: Callable[[UUID, str, str], None] = lambda *_: None
    tenants: dict[str, TenantDatabase] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    late: dict[str, str] = field(default_factory=dict)
    late_fences: set[str] = field(default_factory=set)
    changed: set[UUID] = field(default_factory=set)
    away_until: dict[str, float] = field(default_factory=dict)
    concurrency: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SERVERS, 2))
    slow_share: float = SLOW_SHARE
    slow_seconds: float = SLOW_SECONDS
    origins: dict[str, str] = field(default_factory=dict)
    is_alive: Callable[[str], bool] = lambda _: True
    holds_move: Callable[[str, str], bool] = lambda *_: True
    received: set[str] = field(default_factory=set)
    refuses: bool = True

    @property
    def _ids(self) -> list[str]:
        numbers = [one.revision.partition("_")[0] for one in self.revisions]
        return [
            number if at < self.own_count else f"{number}.{at - self.own_count + 1}"
            for at, number in enumerate(numbers)
        ]

    def copy(self, old: str, new: str) -> None:
        """Copy the database of a tenant into a new one, which another process may have dropped."""
        if new not in self.databases:
            raise DatabaseUnavailable
        found = self.tenants[old]
        log, closed = list(found.log), set(found.closed)
        self.tenants[new] = TenantDatabase(log, found.failures, closed=closed)
        self.origins[new] = self.origins.get(old, old)

    def position(self, count: int) -> SchemaRevision:
        """Return the revision of a database with the first *count* revisions."""
        own = min(count, self.own_count)
        return SchemaRevision(
            self._ids[own - 1] if own else BASE, self._ids[count - 1] if count > own else BASE
        )

    def undoable(self, found: TenantDatabase, undo: Undo) -> tuple[list[Entry], bool]:
        """Return what can be undone in a database, in order, and whether nothing came after it."""
        user = [one for one in found.applied if one.number >= self.own_count]
        undoable = [one for one in user if one.run == undo.run_id]
        return undoable, user[len(user) - len(undoable) :] == undoable

    async def receive(
        self, _url: str, headers: Mapping[str, str], _body: bytes, **_options: object
    ) -> int:
        """Receive a notification as its target does, slowly, and not always; return the status."""
        await asyncio.sleep(self.chance.random() * RECEIVE_SECONDS)
        if self.chance.random() < REFUSED_SHARE and self.refuses:
            return 503
        self.received.add(UUID(headers["webhook-id"]).hex)
        if self.chance.random() < LOST_ANSWER_SHARE and self.refuses:
            raise TimeoutError
        return 204

    def check_server(self, name: str) -> None:
        """Raise `ServerAway` if a server is away."""
        if CLOCK.now < self.away_until.get(name, 0.0):
            raise ServerAway(f"The server '{name}' is away.")


class WorldServer:
    """One server, as a process sees it: what the worker and the ledger use of `db.servers`."""

    can_restart = True
    timeout_seconds = 5.0
    folder = None

    def __init__(self, world: World, name: str, process: str) -> None:
        self._world = world
        self._name = name
        self._process = process
        self.budget = Budget(4)

    def url(self, name: str) -> str:
        """Return the URL of a database: its server, and its name."""
        return f"{self._name}/{name}"

    async def probe(self) -> None:
        """Check that the server is not away."""
        await asyncio.sleep(0.01)
        self._world.check_server(self._name)

    async def create(self, name: str) -> None:
        """Create a database for a job, which takes long on a busy server."""
        await asyncio.sleep(self._world.chance.random() * CREATE_SECONDS)
        await self._reach()
        self._world.databases.add(name)
        if name in self._world.dropped:
            self._world.late[name] = self._process

    async def drop(self, name: str) -> None:
        """Drop the database of a job, if it exists."""
        await self._reach()
        self._world.databases.discard(name)
        self._world.dropped.add(name)
        self._world.tenants.pop(name, None)

    async def reject_writes(self, name: str, *, wait_seconds: float) -> None:
        """Fence a database, and wait for its transactions."""
        await self._reach()
        found = self._found(name)
        found.is_fenced = True
        if not self._world.holds_move(self._process, name):
            self._world.late_fences.add(name)
        ends = CLOCK.now + wait_seconds
        while any(map(self._world.is_alive, found.writers)):
            if CLOCK.now > ends:
                raise DatabaseBusy
            await asyncio.sleep(QUICK_SECONDS)

    async def accept_writes(self, name: str) -> None:
        """Lift the fence of a database, if that exists."""
        await self._reach()
        if name in self._world.tenants:
            self._world.tenants[name].is_fenced = False

    async def stop_following(self, _name: str, _slot: str) -> None:
        """Do what an online move needs, of which there is none here."""
        await self._reach()

    def _found(self, name: str) -> TenantDatabase:
        if name not in self._world.tenants:
            raise DatabaseUnavailable
        return self._world.tenants[name]

    async def _reach(self) -> None:
        await asyncio.sleep(self._world.chance.random() * QUICK_SECONDS)
        try:
            self._world.check_server(self._name)
        except ServerAway as error:
            raise DatabaseUnavailable from error


class WorldMigrator:
    """Migrates simulated tenants as `Migrator` does: one transaction, which its log shows."""

    def __init__(self, world: World, process: str) -> None:
        self._world = world
        self._process = process

    async def migrate(
        self,
        url: str,
        scripts: RunScripts,
        *,
        run_id: UUID,
        is_first: bool = False,
        **_options: object,
    ) -> SchemaState:
        """Migrate a database; return its state, with the error if it failed."""
        world, chance = self._world, self._world.chance
        server, _, name = url.partition("/")
        world.started(run_id, name, self._process)
        found, undo = self._found(name), scripts.undo
        # As `LockRetries._may_be_open`: after the last revision, nothing is left to do.
        has_last = Entry(run_id, len(world.revisions) - 1) in found.log
        may_be_open = not is_first and run_id not in found.closed and not has_last
        if undo is not None or may_be_open or self._todo(found, run_id, None):
            try:
                await self._lock(found)
            except TimeoutError as error:
                return self._state(found, run_id, undo, error)
        if found.is_fenced:
            raise ServerAway(FENCED)
        with found.writing(self._process):
            slow = chance.random() < world.slow_share
            await asyncio.sleep(chance.random() * (world.slow_seconds if slow else QUICK_SECONDS))
            world.check_server(server)
            if world.tenants.get(name) is not found:
                raise ServerAway("The connection was closed: the database was dropped.")
            error: Exception | None = None
            todo = self._todo(found, run_id, undo)
            if todo and run_id in found.closed:
                todo, error = [], RunUndone()
            elif todo and found.failures:
                found.failures -= 1
                error = RevisionBroken("It is broken.")
                todo = todo[: chance.randint(0, len(todo) - 1)]
            found.log += todo
            if undo is not None and (todo or error is None):
                found.closed.add(undo.run_id)
            if may_be_open and not todo and error is None:
                found.closed.add(run_id)
            state = self._state(found, run_id, undo, error)
        await asyncio.sleep(chance.random() * QUICK_SECONDS)
        if chance.random() < LOST_ANSWER_SHARE:
            raise ServerAway("The connection was lost.")
        return state

    async def read_state(
        self, url: str, _streams: object, *, run_id: UUID, undo: Undo | None, **_options: object
    ) -> SchemaState:
        """Return the state of a database, and what a run has applied there."""
        server, _, name = url.partition("/")
        await asyncio.sleep(self._world.chance.random() * QUICK_SECONDS)
        self._world.check_server(server)
        return self._state(self._found(name), run_id, undo, None)

    async def _lock(self, found: TenantDatabase) -> None:
        """Wait for the lock on the version of a database, which is held until the COMMIT."""
        ends = CLOCK.now + LOCK_SECONDS_MAX
        while any(map(self._world.is_alive, found.writers)):
            if CLOCK.now > ends:
                raise TimeoutError
            await asyncio.sleep(QUICK_SECONDS)

    def _todo(self, found: TenantDatabase, run_id: UUID, undo: Undo | None) -> list[Entry]:
        """Return what a run has to do in a database."""
        if undo is None:
            numbers = range(len(found.applied), len(self._world.revisions))
            return [Entry(run_id, number) for number in numbers]
        undoable, is_newest = self._world.undoable(found, undo)
        if not is_newest:
            raise MovedOn
        return [Entry(run_id, one.number, undo.run_id) for one in reversed(undoable)]

    def _found(self, name: str) -> TenantDatabase:
        if name not in self._world.tenants:
            raise DatabaseMissing(MISSING)
        return self._world.tenants[name]

    def _state(
        self, found: TenantDatabase, run_id: UUID, undo: Undo | None, error: Exception | None
    ) -> SchemaState:
        revisions = self._world.revisions
        applied = [revisions[one.number] for one in found.log if one.run == run_id]
        undoable, is_newest = self._world.undoable(found, undo) if undo else ([], True)
        return SchemaState(
            self._world.position(len(found.applied)),
            applied,
            error,
            undoable=tuple(revisions[one.number].revision for one in undoable),
            is_newest=is_newest,
        )


def in_effect(log: Sequence[Entry]) -> list[Entry]:
    """Return what of a log was not undone, in order."""
    found: list[Entry] = []
    for one in log:
        if one.undoes is None:
            found.append(one)
        else:
            found.remove(Entry(one.undoes, one.number))
    return found


def as_server(server: WorldServer) -> Server:
    """Return a simulated server, for those who take a real one."""
    return cast("Server", server)


def as_migrator(migrator: WorldMigrator) -> Migrator:
    """Return a simulated migrator, for those who take a real one."""
    return cast("Migrator", migrator)


def applied_by(world: World, name: str, run_id: UUID) -> list[Any]:
    """Return the names of the revisions that a run has applied to a database."""
    log = world.tenants[name].log
    return [world.revisions[one.number].revision for one in log if one.run == run_id]
