"""An installation that is put back before each trial, and what must hold in it afterwards."""

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg import sql

from harness.faults.preloaded import POSTING
from harness.faults.programs import Outcome, Programs
from harness.faults.shim import Failing
from harness.world import Size, make_world
from tenantry.db.urls import sqlite_path
from testkit import postgres
from testkit.postgres import copy_database, create_database, database_url, find_binaries
from testkit.raw_sql import connected, rows, run, tables

SHOP, MOVER, NEW = "Tenant 0", "Tenant 1", "New"
# On two servers: both are folders; FAR_POSTGRES, if there is one, is on PostgreSQL.
NEAR, FAR, FAR_POSTGRES = "default", "far", "postgresql"
# Where the catalog and the tenants are: `BOTH` has a PostgreSQL server for moves only.
SQLITE, BOTH, POSTGRESQL = "sqlite", "both", "postgresql"
CATALOG = "tenantry_catalog"
NOTES = 300
OWNER = ("--owner-email", "a@example.com")
# Side files of SQLite's.
SIDE = ("-wal", "-shm")
CONTENT = (
    ("note", "SELECT id, body FROM note ORDER BY id"),
    ("tenantry_post", "SELECT title, content FROM tenantry_post ORDER BY title"),
    ("tenantry_user", "SELECT email FROM tenantry_user ORDER BY email"),
)
TENANTS = "SELECT name, database_name, server_name, state, is_active, is_read_only FROM tenant"
UNFINISHED = "SELECT kind, state FROM job WHERE state IN ('running', 'dropping')"
KEPT = "SELECT database_name FROM job WHERE state = 'kept'"

Content = tuple[list[tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Tenant:
    """A row of the catalog."""

    name: str
    database: str
    server: str
    state: str
    is_active: bool
    is_read_only: bool

    @property
    def is_usable(self) -> bool:
        """Whether it serves, and accepts writes."""
        return self.state == "ready" and self.is_active and not self.is_read_only

    @property
    def is_suspended(self) -> bool:
        """Whether it is complete, and was suspended."""
        return self.state == "ready" and not self.is_active


@dataclass
class Stage:
    """An installation of two tenants.

    Attributes:
        base: The folder of everything.
        programs: Runs commands.
        environment: The settings of the installation.
        engine: `SQLITE`, `BOTH` or `POSTGRESQL`.
        server_url: Of the superuser of the PostgreSQL server; empty if all is on SQLite.
        contents: Of each tenant, as it was at the beginning.
    """

    base: Path
    programs: Programs
    environment: dict[str, str]
    engine: str
    server_url: str
    contents: dict[str, Content] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the installation is, and where calls fail."""
        return self.base / "at"

    @property
    def data(self) -> Path:
        """Where Tenantry's files are."""
        return self.folder / "data"

    @property
    def archive(self) -> Path:
        """An archive, outside of the installation."""
        return self.base / "archive.tar"

    @property
    def caller(self) -> Path:
        """The headers of a user of `SHOP`."""
        return self.base / "caller.json"

    @property
    def catalog(self) -> str:
        """The URL of the catalog."""
        return self.environment.get("TENANTRY_CATALOG_URL", f"sqlite:///{self.data}/catalog.db")

    def run(self, *arguments: str, failing: Failing | None = None) -> Outcome:
        """Run a program; see `Programs.run`."""
        port = urlsplit(self.server_url).port or 0
        return self.programs.run(arguments, self.environment, self.folder, port, failing)

    def must(self, *arguments: str) -> None:
        """Run a command that must succeed."""
        outcome = self.run(*arguments)
        assert outcome.status == 0, (arguments, outcome.output, outcome.errors)

    def save(self, name: str = "saved") -> None:
        """Keep the state for `reset`."""
        saved = self.base / name
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(self.folder, saved)
        self._copy_databases("tenantry_", f"{name}_")

    def reset(self, name: str = "saved") -> None:
        """Put the saved state back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.base / name, self.folder)
        self._copy_databases(f"{name}_", "tenantry_")

    def begin(self) -> "Stage":
        """Return it as it was made."""
        shutil.rmtree(self.base / "archives", ignore_errors=True)
        self.reset("fresh")
        return replace(self, environment={**self.environment}, contents={**self.contents})

    def _copy_databases(self, source: str, target: str) -> None:
        if not self.server_url:
            return
        self.drop_databases(target)
        with postgres.connected(self.server_url) as connection:
            for name in self.databases(source):
                copy_database(connection, target + name.removeprefix(source), template=name)

    def databases(self, prefix: str) -> list[str]:
        """Return the names of the databases of the server that begin with *prefix*."""
        names = [name for (name,) in rows(self.server_url, "SELECT datname FROM pg_database")]
        return sorted(one for one in names if one.startswith(prefix))

    def drop_databases(self, prefix: str) -> None:
        """Drop the databases of the server that begin with *prefix*."""
        with postgres.connected(self.server_url) as connection:
            for name in self.databases(prefix):
                drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                connection.execute(drop.format(sql.Identifier(name)))

    def has_catalog(self) -> bool:
        """Return whether there is a catalog."""
        path = sqlite_path(self.catalog)
        return (path is None or path.exists()) and "tenant" in tables(self.catalog)

    def tenants(self, catalog: str | None = None) -> dict[str, Tenant]:
        """Return the tenants that the catalog lists, by name."""
        found = rows(catalog or self.catalog, TENANTS)
        return {row[0]: Tenant(*row) for row in found}

    def url(self, tenant: Tenant) -> str:
        """Return the URL of the database of a tenant."""
        if tenant.server == FAR_POSTGRES or (tenant.server == NEAR and self.engine == POSTGRESQL):
            return database_url(self.server_url, tenant.database)
        place = self.folder / FAR if tenant.server == FAR else self.data / "tenants"
        found = sorted(place.rglob(f"{tenant.database}.db"))
        return f"sqlite:///{found[0] if found else place / 'missing'}"

    def content(self, tenant: Tenant) -> Content:
        """Return what is in its database, which must be whole."""
        url = self.url(tenant)
        with connected(url) as query:
            if sqlite_path(url) is not None:
                assert query("PRAGMA integrity_check") == [("ok",)]
            return tuple(query(sql) if table in tables(url) else [] for table, sql in CONTENT)

    def faults(self, catalog: str | None = None) -> list[str]:
        """Return what is wrong with the tenants that were there at the beginning."""
        listed = self.tenants(catalog)
        found = [f"{name} is lost" for name in self.contents if name not in listed]
        for name in self.contents.keys() & listed.keys():
            tenant = listed[name]
            try:
                content = self.content(tenant)
            except Exception as error:  # noqa: BLE001 - whatever it is
                found.append(f"{name} cannot be read: {error!r}")
                continue
            found += _missing(name, self.contents[name], content)
        return found

    def leftovers(self, *, may_suspend: bool) -> list[str]:
        """Return what no operation leaves when it has ended."""
        listed = self.tenants()
        found = [
            f"{one.name} is not usable: {one}"
            for one in listed.values()
            if not (one.is_usable or (may_suspend and one.is_suspended))
        ]
        found += [f"unfinished: {one}" for one in rows(self.catalog, UNFINISHED)]
        kept = {name for (name,) in rows(self.catalog, KEPT)}
        names = {one.database for one in listed.values()} | kept
        found += [f"file left: {one}" for one in self._unknown_files(names)]
        if self.server_url:
            found += [
                f"database left: {name}"
                for name in self.databases("tenantry_")
                if not name.startswith(("tenantry_template", CATALOG)) and name not in names
            ]
        return found

    def _unknown_files(self, databases: set[str]) -> list[str]:
        known = {"catalog.db", "secret-key", "facts.json", "other.db"} | {
            f"{name}.db" for name in databases
        }
        return [
            str(one.relative_to(self.folder))
            for one in sorted(self.folder.rglob("*"))
            if one.is_file()
            and not (one.parent.name == "backups" and one.suffix == ".tar")
            and "revisions" not in one.parts
            and not one.name.startswith("tenantry_template")
            and one.name.removesuffix(SIDE[0]).removesuffix(SIDE[1]) not in known
        ]


def _missing(name: str, before: Content, now: Content) -> list[str]:
    """Return what was there and is not: more may have been added."""
    lost = [sorted(set(old) - set(new)) for old, new in zip(before, now, strict=True)]
    return [f"{name} has lost {len(one)} rows, such as {one[0]}" for one in lost if one]


def make_stage(base: Path, programs: Programs, engine: str, server_url: str) -> Stage:
    """Return a new installation; *server_url* is empty if all of it is on SQLite."""
    base.mkdir(parents=True)
    is_there = engine == POSTGRESQL
    catalog_url = create_database(server_url, CATALOG) if is_there else None
    near = server_url if is_there else None
    world = make_world(base / "at", Size(2, 1), catalog_url=catalog_url, server_url=near)
    servers = {FAR: f"sqlite:///{base}/at/{FAR}"}
    if engine == BOTH:
        servers[FAR_POSTGRES] = server_url
    environment = {
        **world.environment,
        "TENANTRY_TENANT_SERVERS": json.dumps(servers),
        "TENANTRY_PG_TOOLS": str(find_binaries()),
        "TENANTRY_DELETED_DAYS": "0",
        # A failure that lasts is as a server that is away.
        "TENANTRY_SERVER_PATIENCE_S": "2",
    }
    stage = Stage(base, programs, environment, engine, server_url)
    for tenant in world.tenants:
        run(
            tenant.url,
            "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(200) NOT NULL)",
            "INSERT INTO note WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < {NOTES}) SELECT i, 'some text of a note, again and again' FROM n",
        )
    for tenant in reversed(world.tenants):
        token = f"Bearer {tenant.users[0].token}"
        stage.caller.write_text(json.dumps({"x-api-key": tenant.api_key, "authorization": token}))
        stage.must(POSTING, str(stage.caller))
    stage.contents = {name: stage.content(one) for name, one in stage.tenants().items()}
    stage.save("fresh")
    return stage
