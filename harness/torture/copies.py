"""SIGKILL at random moments of backups, restores, clones, adoptions and moves."""

import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES
from harness.torture.commands import next_length, run_command
from harness.torture.trial import Trial
from harness.waiting import comes_true
from harness.writer import TABLE, Writer
from tenantry.db.factory import open_server
from tenantry.db.servers import Server
from tenantry.db.urls import sqlite_path
from testkit.postgres import SETTINGS, create_database, find_binaries, own_server
from testkit.raw_sql import connected, run

SHOP, COPY, MOVER = "Shop", "Copy", "Mover"
# On PostgreSQL, the server PLAIN is NEAR with a role that is no superuser: only such a role adopts.
NEAR, FAR, PLAIN = "default", "far", "plain"
# A worker is dead after 5 s without a heartbeat; then any command cleans up.
SILENCE_SECONDS = 5.5
WRITABLE_SECONDS_MAX = 5.0
ROWS = 20_000
# So that moves can be online.
LOGICAL = f"{SETTINGS}\nwal_level = logical\n"
SLOTS = "SELECT slot_name FROM pg_replication_slots"
PUBLICATIONS = "SELECT pubname FROM pg_publication"
# Of kills that come after the end of the command.
MISSED_MAX = 10
# After so many kills everything is cleaned up and compared.
ROUND = 5


@dataclass
class _Stage:
    """An installation with two tenants of some megabytes, of which one is moved.

    Attributes:
        servers: The tenant servers, by name.
        writer: Writes to the tenant that is moved.
        archive: Of the tenant.
        restored: A copy of its database, which another program has restored.
        kills: That hit a command before its end.
        after: How many commands had succeeded, seen from what they left.
        faults: What did not hold.
    """

    engine: str
    folder: Path
    environment: Mapping[str, str]
    servers: Mapping[str, Server]
    catalog: str
    writer: Writer
    chance: random.Random
    archive: str = ""
    restored: str = ""
    kills: int = 0
    missed: int = 0
    checks: int = 0
    lengths: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def command(self, *arguments: str, kill_after: float | None = None) -> int | None:
        """Run a command in a process; return its exit status, None if it was killed."""
        return run_command(self.environment, self.folder, arguments, kill_after=kill_after)

    def must(self, *arguments: str) -> None:
        """Run a command that must succeed."""
        status = self.command(*arguments)
        if status != 0:
            self.fault(f"`tenantry {' '.join(arguments)}` ended with {status}")

    def fault(self, text: str) -> None:
        self.faults.append(f"kill {self.kills}: {text}")


def check(trial: Trial) -> list[Finding]:
    """Kill commands, clean up, and compare what exists with what is listed."""
    return trial.on_both(_on)


def _on(trial: Trial, engine: str) -> Finding:
    wanted = trial.scale.copies
    with ExitStack() as stack:
        # Moves are between two servers of their own.
        count = 2 if engine == "postgresql" else 0
        servers = [stack.enter_context(own_server(settings=LOGICAL)).url for _ in range(count)]
        stage = _make_stage(engine, trial.folder / engine, servers, trial.chance)
        stack.enter_context(stage.writer.writing())
        while stage.kills < wanted and stage.missed < MISSED_MAX * wanted:
            for _ in range(min(ROUND, wanted)):
                _kill_once(stage)
            _check(stage)
            say(f"copies, {engine}: {stage.kills} of {wanted}, {len(stage.faults)} faults")
    return _finding(engine, stage)


def _make_stage(engine: str, folder: Path, server_urls: list[str], chance: random.Random) -> _Stage:
    folder.mkdir(parents=True)
    environment = {
        "TENANTRY_DATA_DIR": str(folder / "data"),
        "TENANTRY_SECRET_KEY": "a secret key that only this check uses",
        "TENANTRY_PG_TOOLS": str(find_binaries()),
        "TENANTRY_DELETED_DAYS": "0",
    }
    catalog, server = (
        f"sqlite:///{folder / 'data' / 'catalog.db'}",
        f"sqlite:///{folder}/data/tenants",
    )
    far = f"sqlite:///{folder}/data/far"
    if engine == "postgresql":
        server, far = server_urls
        catalog = create_database(server, "tenantry_catalog")
        environment |= {"TENANTRY_CATALOG_URL": catalog, "TENANTRY_TENANT_SERVER_URL": server}
    urls = {NEAR: server, FAR: far}
    if engine == "postgresql":
        run(server, f"CREATE ROLE {PLAIN} LOGIN CREATEDB")
        urls[PLAIN] = server.replace("postgres@", f"{PLAIN}@")
    others = {name: url for name, url in urls.items() if name != NEAR}
    environment["TENANTRY_TENANT_SERVERS"] = json.dumps(others)
    servers = {
        name: open_server(url, connections_max=1, timeout_seconds=10, synchronous="FULL")
        for name, url in urls.items()
    }
    writer = Writer(environment, MOVER)
    stage = _Stage(engine, folder, environment, servers, catalog, writer, chance)
    owner = ("--owner-email", "a@example.com")
    for name in (SHOP, MOVER):
        stage.must("tenant", "create", name, *owner)
        run(
            _url(stage, name),
            TABLE,
            "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(200) NOT NULL)",
            "INSERT INTO note WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < {ROWS}) SELECT i, 'some text of a note, again and again' FROM n",
        )
    stage.must("backup", "create", "--tenant", SHOP)
    (archive,) = (folder / "data" / "backups").glob("*.tar")
    saved = folder / "saved.tar"
    shutil.copy(archive, saved)
    stage.archive = str(saved)
    stage.restored = _copy_database(stage, server)
    for name in _commands(stage):
        began = time.monotonic()
        stage.must(*_commands(stage)[name])  # after a move, it goes to the other server
        stage.lengths[name] = time.monotonic() - began
        _remove_copy(stage)
    return stage


def _copy_database(stage: _Stage, server_url: str) -> str:
    """Copy the database of the tenant, as another program restores it; return its URL."""
    url = _url(stage, SHOP)
    path = sqlite_path(url)
    if path is None:
        return create_database(server_url, "restored", template=url.rpartition("/")[2])
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("VACUUM INTO ?", (str(stage.folder / "restored.db"),))
    return f"sqlite:///{stage.folder / 'restored.db'}"


def _commands(stage: _Stage) -> dict[str, tuple[str, ...]]:
    moving = ("tenant", "move", MOVER, "--to", FAR if _server(stage, MOVER) == NEAR else NEAR)
    adopting = ("tenant", "adopt", "--as", COPY, "--database", stage.restored)
    return {
        "adopt": (*adopting, *(("--server", PLAIN) if PLAIN in stage.servers else ())),
        "backup": ("backup", "create", "--tenant", SHOP),
        "restore": ("backup", "restore", stage.archive, "--as", COPY),
        "replace": ("backup", "restore", stage.archive, "--replace", SHOP),
        "clone": ("tenant", "clone", SHOP, "--as", COPY),
        "verify": ("backup", "verify", stage.archive),
        "move": (*moving, "--offline"),
        "move online": (*moving, "--online" if stage.engine == "postgresql" else "--offline"),
    }


def _kill_once(stage: _Stage) -> None:
    commands = _commands(stage)
    # Moves are as frequent as everything else together.
    others = stage.chance.choice(list(commands))
    chosen = stage.chance.choice(["move", "move online", others, others])
    words, length = commands[chosen], stage.lengths[chosen]
    began = time.monotonic()
    status = stage.command(*words, kill_after=stage.chance.uniform(0, length))
    took = None if status is None else time.monotonic() - began
    stage.lengths[chosen] = next_length(length, took)
    stage.kills += status is None
    stage.missed += status is not None
    _remove_copy(stage, after_kill=True)


def _check(stage: _Stage) -> None:
    """Clean up as any later command does, and compare everything."""
    time.sleep(SILENCE_SECONDS)
    stage.must("backup", "create", "--tenant", SHOP)
    with connected(stage.catalog) as query:
        tenants = query("SELECT name, database_name, state, is_active, is_read_only FROM tenant")
        kept = query("SELECT database_name, state FROM job WHERE database_name IS NOT NULL")
        running = query("SELECT kind, state FROM job WHERE state IN ('running', 'dropping')")
    listed = {row[1] for row in tenants} | {row[0] for row in kept if row[1] == "kept"}
    existing = _databases(stage)
    if existing != listed:
        stage.fault(f"listed {sorted(listed - existing)}, not listed {sorted(existing - listed)}")
    if running:
        stage.fault(f"jobs are unfinished: {running}")
    _check_slots(stage)
    if bad := [row for row in tenants if row[2] != "ready" or not row[3] or row[4]]:
        stage.fault(f"tenants that are not ready, active and writable: {bad}")
    for name, *_ in tenants:
        stage.checks += 1
        with connected(_url(stage, name)) as query:
            ((count,),) = query("SELECT count(*) FROM note")
        if count != ROWS:
            stage.fault(f"{name} has {count} rows")
    if not {SHOP, MOVER} <= {row[0] for row in tenants}:
        stage.fault("a tenant is lost")
    _check_writes(stage)
    data = stage.folder / "data"
    if left := [*(data / "scratch").glob("*"), *(data / "backups").glob(".*")]:
        stage.fault(f"files are left: {left}")
    for archive in sorted((data / "backups").glob("*.tar"))[-1:]:
        stage.must("backup", "verify", str(archive))
    if kept:
        stage.command("backup", "confirm", SHOP)


def _check_slots(stage: _Stage) -> None:
    """Check that no move has left a replication slot or a publication."""
    if stage.engine == "sqlite":
        return
    for name in (SHOP, MOVER):
        with connected(_url(stage, name)) as query:
            if found := query(PUBLICATIONS):
                stage.fault(f"{name} has publications: {found}")
    for server in stage.servers.values():
        with connected(server.url("postgres")) as query:
            if found := query(SLOTS):
                stage.fault(f"replication slots are left: {found}")


def _check_writes(stage: _Stage) -> None:
    """Check that the moved tenant has every acknowledged write, and accepts more."""
    before = stage.writer.acknowledged
    count = len(before)
    with connected(_url(stage, MOVER)) as query:
        stored = {row[0] for row in query("SELECT id FROM written")}
    if lost := [one for one in before[:count] if one not in stored]:
        stage.fault(f"{len(lost)} of {count} acknowledged writes are lost, such as {lost[:3]}")
    if not comes_true(lambda: len(stage.writer.acknowledged) > count, WRITABLE_SECONDS_MAX):
        stage.fault("the moved tenant accepts no writes")


def _databases(stage: _Stage) -> set[str]:
    """Return the databases on both servers, without templates."""
    return {
        name
        for server in stage.servers.values()
        for name in asyncio.run(server.names("tenantry_"))
        if not name.startswith(("tenantry_template", "tenantry_catalog"))
    }


def _server(stage: _Stage, name: str) -> str:
    with connected(stage.catalog) as query:
        ((server,),) = query(f"SELECT server_name FROM tenant WHERE name = '{name}'")
    return str(server)


def _remove_copy(stage: _Stage, *, after_kill: bool = False) -> None:
    """Delete the copy, if it is listed, so that its name is free again."""
    with connected(stage.catalog) as query:
        found = query(f"SELECT state FROM tenant WHERE name = '{COPY}'")
    if found and found[0][0] == "ready":
        stage.must("tenant", "suspend", COPY)
        stage.must("tenant", "delete", COPY, "--name", COPY)
    elif found and after_kill:
        time.sleep(SILENCE_SECONDS)  # the name is reserved until the dead process is noticed


def _url(stage: _Stage, name: str) -> str:
    with connected(stage.catalog) as query:
        ((database,),) = query(f"SELECT database_name FROM tenant WHERE name = '{name}'")
    return stage.servers[_server(stage, name)].url(database)


def _finding(engine: str, stage: _Stage) -> Finding:
    return Finding(
        name=f"copies, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {stage.kills} SIGKILLs in backups, restores, replacements, "
        "clones, adoptions of copies, verifications and moves (on PostgreSQL also online), with a "
        "writer of 200 rows a second",
        must="no tenant lost, incomplete, suspended or read-only; no database, file or replication "
        "slot that no command lists; no unfinished job after the next command; no acknowledged "
        "write lost",
        found=f"{len(stage.faults)} faults; {stage.checks} tenants compared; {stage.missed} "
        f"commands ended before the kill; {len(stage.writer.acknowledged)} writes acknowledged, "
        f"{stage.writer.rejected} rejected",
        faults=stage.faults,
    )
