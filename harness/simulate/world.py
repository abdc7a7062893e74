"""What is outside of the catalog: the databases of the tenants, and their servers."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from harness.simulate.clock import CLOCK
from tenantry.db.database import Budget
from tenantry.db.outage_errors import ServerAway
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.write_fence import DatabaseBusy
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import BASE, Applied, SchemaRevision, SchemaState

SERVERS = ("default", "second")
TENANTS = 10
QUICK_SECONDS, SLOW_SECONDS = 0.2, 9.0
"""How long most migrations take, at most, and a few: longer than a worker may be silent."""
CREATE_SECONDS = 3.0
SLOW_SHARE = 0.05
LOST_ANSWER_SHARE = 0.05


MISSING, FENCED = "The database does not exist.", "The database rejects writes."


class RevisionBroken(Exception):
    """The revision of a simulated tenant fails."""


class DatabaseMissing(Exception):
    """The database of a simulated tenant was dropped."""


def database_name(number: int) -> str:
    """Return the name of the database of a tenant."""
    return f"tenantry_{number:032x}"


@dataclass
class TenantDatabase:
    """The database of a tenant.

    Attributes:
        log: The run of each applied revision, in order.
        failures: How many more attempts fail.
        is_fenced: Whether it rejects writes, because it is being moved.
        writers: The processes with a transaction in it.
    """

    log: list[UUID] = field(default_factory=list)
    failures: int = 0
    is_fenced: bool = False
    writers: list[str] = field(default_factory=list)

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
        started: Called when the migration of a tenant begins: the run, the database, the process.
        databases: Those that jobs have made and not dropped.
        dropped: Those that were dropped.
        late: Those that were made when they had been dropped before, with the process that did it.
        changed: The jobs that have changed a tenant, and have not undone that.
        away_until: Until when each server is away.
        concurrency: How many tenants of each server a process that starts migrates at a time.
        slow_share: Of the migrations, how many are slow.
        slow_seconds: How long these take, at most.
        origins: The names of the databases of moved tenants, each with that of its first one.
        is_alive: Whether a process was not killed: what that had open is rolled back.
    """

    chance: random.Random
    revisions: tuple[Applied, ...]
    started: Callable[[UUID, str, str], None] = lambda *_: None
    tenants: dict[str, TenantDatabase] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    late: dict[str, str] = field(default_factory=dict)
    changed: set[UUID] = field(default_factory=set)
    away_until: dict[str, float] = field(default_factory=dict)
    concurrency: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SERVERS, 2))
    slow_share: float = SLOW_SHARE
    slow_seconds: float = SLOW_SECONDS
    origins: dict[str, str] = field(default_factory=dict)
    is_alive: Callable[[str], bool] = lambda _: True

    def copy(self, old: str, new: str) -> None:
        """Copy the database of a tenant."""
        found = self.tenants[old]
        self.tenants[new] = TenantDatabase(list(found.log), found.failures)
        self.origins[new] = self.origins.get(old, old)

    def position(self, count: int) -> SchemaRevision:
        """Return the revision of a database with the first *count* revisions."""
        return SchemaRevision(self.revisions[count - 1].revision[:4] if count else BASE, None)

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
        self, url: str, _scripts: RunScripts, *, run_id: UUID, **_options: object
    ) -> SchemaState:
        """Migrate a database; return its state, with the error if it failed."""
        world, chance = self._world, self._world.chance
        server, _, name = url.partition("/")
        world.started(run_id, name, self._process)
        found = self._found(name)
        if found.is_fenced:
            raise ServerAway(FENCED)
        with found.writing(self._process):
            slow = chance.random() < world.slow_share
            await asyncio.sleep(chance.random() * (world.slow_seconds if slow else QUICK_SECONDS))
            world.check_server(server)
            if world.tenants.get(name) is not found:
                raise ServerAway("The connection was closed: the database was dropped.")
            error = None
            if len(found.log) < len(world.revisions) and found.failures:
                found.failures -= 1
                error = RevisionBroken("It is broken.")
                found.log += [run_id] * chance.randint(0, len(world.revisions) - len(found.log) - 1)
            else:
                found.log += [run_id] * (len(world.revisions) - len(found.log))
            state = self._state(found, run_id, error)
        await asyncio.sleep(chance.random() * QUICK_SECONDS)
        if chance.random() < LOST_ANSWER_SHARE:
            raise ServerAway("The connection was lost.")
        return state

    async def read_state(
        self, url: str, _streams: object, *, run_id: UUID, **_options: object
    ) -> SchemaState:
        """Return the state of a database, and what a run has applied there."""
        server, _, name = url.partition("/")
        await asyncio.sleep(self._world.chance.random() * QUICK_SECONDS)
        self._world.check_server(server)
        return self._state(self._found(name), run_id, None)

    def _found(self, name: str) -> TenantDatabase:
        if name not in self._world.tenants:
            raise DatabaseMissing(MISSING)
        return self._world.tenants[name]

    def _state(self, found: TenantDatabase, run_id: UUID, error: Exception | None) -> SchemaState:
        log = found.log
        applied = [self._world.revisions[at] for at, one in enumerate(log) if one == run_id]
        return SchemaState(self._world.position(len(log)), applied, error)


def as_server(server: WorldServer) -> Server:
    """Return a simulated server, for those who take a real one."""
    return cast("Server", server)


def as_migrator(migrator: WorldMigrator) -> Migrator:
    """Return a simulated migrator, for those who take a real one."""
    return cast("Migrator", migrator)


def applied_by(world: World, name: str, run_id: UUID) -> list[Any]:
    """Return the names of the revisions that a run has applied to a database."""
    log = world.tenants[name].log
    return [world.revisions[at].revision for at, one in enumerate(log) if one == run_id]
