"""A fleet of attached databases: what works on it in one process, without the rest of a service.

The state of the fleet is a catalog. Its databases are those of the list of this process, which
alone has their passwords.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Never

from tenantry.catalog import attached, stored_plans
from tenantry.catalog.attached import BadList, ListChanges, Listed
from tenantry.catalog.database import Catalog
from tenantry.catalog.opening import is_at_head
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.upgrading import CatalogUnusable, upgrade_catalog
from tenantry.db.database import Budget
from tenantry.db.postgres_server import PostgresServer
from tenantry.db.servers import Server, is_generated
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import files
from tenantry.db.sqlite_folder import SqliteFolder
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path
from tenantry.fleet.approval import Rules
from tenantry.fleet.database_list import FILES, servers_of
from tenantry.fleet.dry_run import Previewer
from tenantry.fleet.migration_runs import Fleet
from tenantry.fleet.worker import Worker
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.metrics import Metrics
from tenantry.kit.tasks import kept_running
from tenantry.kit.threads import DaemonThreads
from tenantry.migration import alembic_modules, live
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.migration.streams import NO_STREAM, Stream, Streams
from tenantry.migration.undo import USER
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.heartbeat import Heartbeat

SERVERS_MAX = 256
"""Each has its own tasks and threads."""
STATE_CONNECTIONS_MAX = 8
LIMITS_DEFAULT = TimeLimits(connect_seconds=5.0, deadline_seconds=900.0, lock_ms=3_000)
"""Those of the settings of a service."""
HOUSEKEEPING_SECONDS = 5.0


class NotListed(Unavailable):
    """The list of this process does not contain the database: use the same list on each machine."""


class StateUnusable(Unavailable):
    """The state of the fleet cannot be used: its disk is full, or it cannot be opened."""


class NotOpened(Unavailable):
    """Attached databases are migrated and compared, and not opened for requests."""


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """What a fleet consists of, and how it is migrated.

    Attributes:
        state: The URL of the database with the state of the fleet.
        migrations: The Alembic directory.
        version_table: The version table of its revisions.
        naming_convention: That of the ``target_metadata`` in its ``env.py``.
        has_log: Whether each database gets the log that tells what a killed run has applied.
        concurrency: How many databases are migrated concurrently on each server.
        limits: The time limits of each database.
        patience_seconds: How long the databases of a server that is away wait.
        driver: The driver for revisions that run live on PostgreSQL.
        synchronous: ``FULL`` or ``NORMAL``, for a state on SQLite.
        rules: Which plans a run needs.
    """

    state: str
    migrations: Path
    version_table: str = alembic_modules.VERSION_TABLE
    naming_convention: Mapping[Any, str] = field(default_factory=dict)
    has_log: bool = True
    concurrency: int = 4
    limits: TimeLimits = LIMITS_DEFAULT
    patience_seconds: float = 300.0
    driver: str = live.DRIVER_DEFAULT
    synchronous: str = "FULL"
    rules: Rules = field(default_factory=Rules)

    def streams(self) -> Streams:
        """Return the streams of the databases: that of the Alembic directory, as it is now."""
        user = Stream(USER, self.migrations, self.naming_convention)
        return Streams(NO_STREAM, user, self.version_table, has_log=self.has_log, is_attached=True)


@dataclass(frozen=True, kw_only=True)
class ListedFleet:
    """The fleet of a process that serves its console.

    Attributes:
        options: What it consists of.
        listed: Its databases.
    """

    options: FleetOptions
    listed: Sequence[Listed]


@dataclass(frozen=True, kw_only=True)
class AttachedFleet:
    """What works on a fleet in one process. Its members are those of `services.Services`."""

    options: FleetOptions
    catalog: Catalog
    databases: TenantDatabases
    migrator: Migrator
    heartbeat: Heartbeat
    worker: Worker
    fleet: Fleet
    streams: Callable[[], Streams]
    changes: ListChanges

    @property
    def patience_seconds(self) -> float:
        """How long a run waits for a server, or for the state, that is away."""
        return self.options.patience_seconds


class _AttachedServer(PostgresServer):
    """A PostgreSQL server of attached databases: it is probed through the first one."""

    def __init__(self, urls: Mapping[str, str], *, timeout_seconds: float) -> None:
        first = next(iter(urls.values()))
        super().__init__(first, Budget(1), admin_url=first, timeout_seconds=timeout_seconds)
        self._urls = urls

    def url(self, name: str) -> str:
        """Return the URL of a database, with its password."""
        return super().url(name) if is_generated(name) else _url_in(self._urls, name)

    def open(self, name: str) -> Never:
        """Raise `NotOpened`."""
        del name
        raise NotOpened


class AttachedFiles(SqliteFolder):
    """SQLite files anywhere: an error is of one file, and not of all."""

    def __init__(self, urls: Mapping[str, str] | None = None) -> None:
        super().__init__(Path(), Budget(1), synchronous="FULL")
        self._urls = urls or {}
        self._folders: dict[str, Path] = {}

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        if not is_generated(name):
            return _url_in(self._urls, name)
        return f"{SQLITE_PREFIX}{self._folders.get(name, self.folder) / name}.db"

    def open(self, name: str) -> Never:
        """Raise `NotOpened`: for requests, a file gets another journal mode."""
        del name
        raise NotOpened

    async def create(self, name: str) -> None:
        """Create the empty database *name* in a new folder for temporary files."""
        made = await asyncio.to_thread(tempfile.mkdtemp, prefix="tenantry-")
        self._folders[name] = Path(made)
        await super().create(name)

    async def drop(self, name: str) -> None:
        """Drop the database *name*, and the folder that was created for it."""
        await super().drop(name)
        if (folder := self._folders.pop(name, None)) is not None:
            await asyncio.to_thread(folder.rmdir)

    async def probe(self) -> None:
        """Do nothing: there is no server."""


def _url_in(urls: Mapping[str, str], name: str) -> str:
    if name not in urls:
        raise NotListed
    return urls[name]


def open_state(options: FleetOptions, pace: Pace = PACE) -> Catalog:
    """Return the state of a fleet, without connecting to it yet."""
    return Catalog(
        options.state,
        connections_max=STATE_CONNECTIONS_MAX,
        timeout_seconds=options.limits.connect_seconds,
        synchronous=options.synchronous,
        pace=pace,
    )


@asynccontextmanager
async def open_fleet(
    options: FleetOptions,
    ctx: OperationContext,
    listed: Sequence[Listed],
    *,
    works: bool = True,
    pace: Pace = PACE,
) -> AsyncIterator[AttachedFleet]:
    """Open the state of a fleet, and make its databases those of the list.

    Args:
        options: What the fleet consists of.
        ctx: Who opens it, and when.
        listed: Its databases; without any, those of before, none of which can be opened.
        works: Whether this process works on its runs.
        pace: How often it reads and writes the state.

    Raises:
        BadList, NotAFleet: As for `attach`, or there are too many servers.
        StateUnusable: The state cannot be reached or migrated, or, also later, its disk is full.
    """
    servers = open_servers(options, listed)
    # Each dry run reads as many databases as each server migrates.
    threads = DaemonThreads(options.concurrency * (len(servers) + 2), "migrate")
    opened, path = _build(options, servers, threads, pace), sqlite_path(options.state)
    try:
        # An empty one is left after an attempt on a full disk.
        if path is not None and not (path.exists() and path.stat().st_size):
            await asyncio.to_thread(files.create, path)
        if not await is_at_head(opened.catalog):
            await upgrade_catalog(options.state, opened.migrator)
        if listed:
            changes = await attached.attach(opened.catalog, ctx, listed)
            opened = replace(opened, changes=changes)
        await opened.heartbeat.beat()
        async with _background(opened, works=works):
            yield opened
            await opened.worker.stop()
        await opened.heartbeat.end()
    except (CatalogUnusable, DatabaseUnavailable) as error:
        is_full = path and shutil.disk_usage(path.parent).free < files.PROBE_BYTES
        if not is_full and not isinstance(error, CatalogUnusable):
            raise
        where = "on PostgreSQL" if path is None else path  # a URL can have a password
        reason = "its disk is full." if is_full else explain(error.__cause__ or error)
        raise StateUnusable(f"The state {where} cannot be used: {reason}") from error
    finally:
        await opened.databases.close()
        await opened.catalog.close()
        threads.shutdown()


def open_servers(options: FleetOptions, listed: Sequence[Listed]) -> dict[str, Server]:
    """Return the servers of the databases in a list, by name.

    Raises:
        BadList: There are too many.
    """
    urls = servers_of(listed)
    if len(urls) > SERVERS_MAX:
        raise BadList(f"The databases of a list can be on at most {SERVERS_MAX} servers.")
    seconds = options.limits.connect_seconds
    return {
        name: AttachedFiles(some)
        if name == FILES
        else _AttachedServer(some, timeout_seconds=seconds)
        for name, some in urls.items()
    }


def _build(
    options: FleetOptions, servers: Mapping[str, Server], threads: DaemonThreads, pace: Pace
) -> AttachedFleet:
    catalog, databases, metrics = open_state(options, pace), TenantDatabases(servers), Metrics()
    migrator = Migrator(threads, options.limits, driver=options.driver)
    heartbeat = Heartbeat(catalog, pace)
    worker = Worker(
        catalog,
        databases,
        migrator,
        heartbeat,
        options.streams,
        metrics=metrics,
        concurrency=dict.fromkeys(servers, options.concurrency),
        patience_seconds=options.patience_seconds,
        pace=pace,
    )
    previewer = Previewer(databases=databases, migrator=migrator, concurrency=options.concurrency)
    start = partial(Fleet, metrics=metrics, rules=options.rules, pace=pace)
    return AttachedFleet(
        options=options,
        catalog=catalog,
        databases=databases,
        migrator=migrator,
        heartbeat=heartbeat,
        worker=worker,
        fleet=start(catalog, worker, previewer, options.streams),
        streams=options.streams,
        changes=ListChanges((), ()),
    )


@asynccontextmanager
async def _background(opened: AttachedFleet, *, works: bool) -> AsyncIterator[None]:
    works_on: list[Callable[[], Awaitable[None]]] = [
        partial(opened.heartbeat.keep_beating, opened.worker.report)
    ]
    if works:
        works_on += [opened.worker.work, partial(_keep_house, opened)]
    async with kept_running(works_on):
        yield


async def _keep_house(opened: AttachedFleet) -> None:
    while True:
        with contextlib.suppress(DatabaseUnavailable):
            await opened.fleet.remove_unplanned()
            await stored_plans.prune(opened.catalog, now=utc_now())
        await asyncio.sleep(HOUSEKEEPING_SECONDS)
