"""Fixtures of the integration tests: servers, directories of revisions, a migrator."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.db.database import Database
from tenantry.db.factory import open_server
from tenantry.db.servers import Server
from tenantry.kit.ids import new_id
from tenantry.migration.lock_retries import Inspection
from tenantry.migration.migrator import (
    Migrator,
    RunScripts,
    TimeLimits,
)
from tenantry.migration.schema_state import SchemaState
from tenantry.migration.streams import Stream, Streams
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.postgres import create_database, drop_database
from testkit.revisions import AlembicFolder
from tests.integration.gates import Gate

MakeMigrator = Callable[..., Migrator]
Keep = Callable[[Database[Any]], Database[Any]]

# Both are enough for a busy machine.
DEADLINE_SECONDS = 60.0
CONNECT_SECONDS = 20.0
LOCK_MS = 400


@dataclass(frozen=True)
class Rig:
    """Migrates databases with our own stream and a user's directory."""

    migrator: Migrator
    folder: AlembicFolder

    def streams(self, table: str = "alembic_version") -> Streams:
        """Return the streams as they are now."""
        return Streams(STREAM, Stream("user", self.folder.begin()), table)

    async def migrate(self, url: str, streams: Streams | None = None) -> SchemaState:
        """Migrate one database in a run of its own."""
        scripts = RunScripts(streams or self.streams())
        return await self.migrator.migrate(url, scripts, run_id=new_id())

    async def inspect(self, url: str) -> Inspection:
        """Inspect one database."""
        return await self.migrator.inspect(url, RunScripts(self.streams()))

    async def rehearse(self, url: str) -> Inspection:
        """Rehearse the migration of one database."""
        return await self.migrator.inspect(url, RunScripts(self.streams()), rehearses=True)

    async def initialise(self, url: str, streams: Streams | None = None) -> str:
        """Make an empty database a tenant's, with our own stream alone at its head."""
        scripts = RunScripts(streams or Streams(STREAM))
        await self.migrator.initialise(url, scripts, run_id=new_id())
        return url


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> AlembicFolder:
    return AlembicFolder(tmp_path / "alembic")


@pytest.fixture(name="gate")
def _gate(folder: AlembicFolder, tmp_path: Path) -> Gate:
    return Gate(folder, tmp_path / "open")


@pytest.fixture(name="gated")
def _gated(settings: Settings, gate: Gate) -> Settings:
    """Settings of a fleet with migrations that wait at the gate, two at once."""
    return settings.model_copy(
        update={"tenant_migrations": gate.folder.begin(), "migrate_concurrency": 2}
    )


@pytest.fixture(name="ordinary")
def _ordinary(settings: Settings, engine: str) -> Iterator[Settings]:
    """Settings with a role of its own on the tenant server, which is no superuser."""
    if engine == "sqlite":
        yield settings
        return
    role, url = f"ordinary_{secrets.token_hex(4)}", settings.servers["default"].address
    raw_sql.run(url, f"CREATE ROLE {role} LOGIN CREATEDB")
    values = settings.model_dump()
    values["tenant_server_url"] = url.replace("//postgres@", f"//{role}@")
    yield Settings(**values)
    owned = f"SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = '{role}'"
    for (name,) in raw_sql.rows(url, owned):
        drop_database(url, name)
    raw_sql.run(url, f"DROP ROLE {role}")


@pytest.fixture(name="make_migrator")
def _make_migrator() -> Iterator[MakeMigrator]:
    """Makes migrators, with a deadline and options."""
    threads = ThreadPoolExecutor(16)

    def make(deadline_seconds: float, **options: Any) -> Migrator:
        return Migrator(threads, _limits(deadline_seconds), **options)

    yield make
    threads.shutdown(wait=False, cancel_futures=True)


def _limits(deadline_seconds: float) -> TimeLimits:
    return TimeLimits(
        connect_seconds=CONNECT_SECONDS,
        deadline_seconds=deadline_seconds,
        lock_ms=LOCK_MS,
        lock_pause_seconds=0.01,
    )


@pytest.fixture(name="rig")
def _rig(folder: AlembicFolder, make_migrator: MakeMigrator) -> Rig:
    return Rig(make_migrator(DEADLINE_SECONDS), folder)


@pytest.fixture(name="sqlite_tenant", scope="session")
def _sqlite_tenant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tenant's file, to copy."""
    path = tmp_path_factory.mktemp("original") / "tenant.db"
    path.touch()
    _initialise(f"sqlite:///{path}")
    return path


@pytest.fixture(name="postgresql_tenant", scope="session")
def _postgresql_tenant(server_url: str) -> Iterator[str]:
    """The name of a tenant's database, to copy, that no test cleans up."""
    name = f"original_{secrets.token_hex(4)}_tenant"
    _initialise(create_database(server_url, name))
    yield name
    drop_database(server_url, name)


def _initialise(url: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        migrator = Migrator(threads, _limits(DEADLINE_SECONDS))
        asyncio.run(migrator.initialise(url, RunScripts(Streams(STREAM)), run_id=new_id()))


@pytest.fixture(name="new_tenant")
def _new_tenant(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes databases of tenants, at the head of our own stream."""
    original = request.getfixturevalue(f"{engine}_tenant")
    server = None if engine == "sqlite" else request.getfixturevalue("postgres_url")

    def make() -> str:
        name = f"test_{secrets.token_hex(8)}"
        if server is not None:
            return create_database(server, name, template=original)
        path = tmp_path / f"{name}.db"
        shutil.copyfile(original, path)
        return f"sqlite:///{path}"

    return make


@pytest.fixture(name="tenant_url")
def _tenant_url(new_tenant: Callable[[], str]) -> str:
    """A tenant's database, at the head of our own stream."""
    return new_tenant()


@pytest.fixture(name="make_server")
def _make_server(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[int], Server]:
    """Opens the server, or the folder, with a budget."""

    def make(connections_max: int) -> Server:
        if engine == "sqlite":
            url = f"sqlite:///{tmp_path / 'server'}"
        else:
            url = request.getfixturevalue("postgres_url")
        return open_server(
            url,
            connections_max=connections_max,
            timeout_seconds=CONNECT_SECONDS,
            synchronous="NORMAL",
        )

    return make


@pytest.fixture(name="keep")
async def _keep() -> AsyncIterator[Keep]:
    """Closes a database after the test, failed or not: its threads would keep pytest alive."""
    kept: list[Database[Any]] = []

    def keep(database: Database[Any]) -> Database[Any]:
        kept.append(database)
        return database

    yield keep
    for database in kept:
        await database.close()


@pytest.fixture(name="prefix")
async def _prefix(make_server: Callable[[int], Server]) -> AsyncIterator[str]:
    """A unique prefix of names; databases with it are dropped afterwards."""
    prefix = f"tenantry_t{secrets.token_hex(6)}_"
    yield prefix
    server = make_server(1)
    for name in await server.names(prefix):
        await server.drop(name)
