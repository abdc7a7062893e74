"""Tenants that are broken in every way we know, among others that are well."""

import asyncio
import json
import re
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from harness.api import MIGRATE_ALL, admin_client, newest_runs
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, Fleet, make_fleet
from harness.fleet.history import PENDING, Step
from harness.processes import Process, serving
from harness.torture.trial import Trial
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.postgres import Server as PostgresServer
from testkit.postgres import own_server
from testkit.programs import free_port, run

PASSWORD = "a-password-that-nobody-may-see"
ROW_VALUE = "a-value-that-nobody-may-see"
# What is in no text, of whatever kind: the last is the seal of the signing keys.
SECRETS = (PASSWORD, ROW_VALUE, "a secret key that is used in benchmarks alone")
ROLE = "guest"
REFUSED, HUNG, LOCKED_OUT = "refused", "hung", "locked-out"
# How long a tenant may take to fail in the end, beside its deadline.
SLACK_SECONDS = 5.0
# On PostgreSQL the message of the cast holds the value; on SQLite all text casts to 0, twice.
LAST = Step(
    "0015_number_articles",
    "",
    """op.execute("ALTER TABLE article ADD COLUMN number INTEGER")
    op.execute("UPDATE article SET number = CAST(replace(title, 'Article ', '') AS INTEGER)")
    op.execute("CREATE UNIQUE INDEX ux_article_number ON article (number)")""",
    "",
)


@dataclass(frozen=True)
class Way:
    """A way to be broken.

    Attributes:
        name: For people.
        cause: An expression that the reason must match.
    """

    name: str
    cause: str
    do: Callable[["_Stage", int], None]


@dataclass(frozen=True)
class _Stage:
    """Where tenants are broken.

    Attributes:
        fleet: Of the tenants.
        stack: Ends what holds them up.
    """

    fleet: Fleet
    stack: ExitStack

    def run(self, number: int, *statements: str) -> None:
        """Run *statements* on a tenant."""
        raw_sql.run(self.fleet.urls[number], *statements)

    def move(self, number: int, server_name: str) -> None:
        """Let a tenant be on another server."""
        tenant_id = self.fleet.ours.ids[number].hex
        sql = f"UPDATE tenant SET server_name = '{server_name}' WHERE id = '{tenant_id}'"
        raw_sql.run(self.fleet.catalog_url, sql)


def check(trial: Trial) -> list[Finding]:
    """Break some, and migrate them all."""
    return trial.on_both(_on)


def _on(trial: Trial, engine: str) -> Finding:
    if engine == "sqlite":
        return _check(trial, None, SQLITE_WAYS)
    # Who is refused needs a server that asks for a password.
    with own_server() as server:
        return _check(trial, server, POSTGRESQL_WAYS)


def _check(trial: Trial, postgres: PostgresServer | None, ways: Sequence[Way]) -> Finding:
    scale = trial.scale
    engine = "sqlite" if postgres is None else "postgresql"
    faults: list[str] = []
    with ExitStack() as stack:
        fleet = make_fleet(
            trial.folder / engine,
            scale.broken_tenants,
            server_url=postgres.url if postgres else None,
            log_level="debug",
            tenant_deadline_s=str(scale.deadline_s),
            connect_timeout_s=str(min(5, scale.deadline_s / 4)),
            lock_timeout_ms=str(scale.lock_timeout_ms),
            server_patience_s=str(scale.deadline_s / 4),
            tenant_servers=stack.enter_context(_servers(postgres)),
        )
        _add_last(fleet)
        stage = _Stage(fleet, stack)
        broken = dict(
            zip(trial.chance.sample(range(scale.broken_tenants), len(ways)), ways, strict=True)
        )
        for number, way in broken.items():
            way.do(stage, number)
        server = stack.enter_context(serving(trial.folder, fleet.environment))
        texts, data, seconds = asyncio.run(_migrate(server, fleet))
        texts["tenantry migrate show"] = _shown(trial.folder, fleet)
        texts["what the server wrote"] = server.said
    faults += _wrong_outcomes(fleet, data, broken)
    if seconds > scale.deadline_s + SLACK_SECONDS:
        faults.append(f"the run took {seconds:.1f} s")
    for where, text in texts.items():
        faults += [f"a secret is in {where}" for secret in SECRETS if secret in text]
    well = scale.broken_tenants - len(ways)
    return Finding(
        name=f"broken, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {len(ways)} ways to be broken among "
        f"{scale.broken_tenants} tenants: {', '.join(way.name for way in ways)}",
        must=f"{len(ways)} failed, each with its own readable cause, {well} done, within one "
        f"tenant's deadline ({scale.deadline_s:g} s); no secret and no value of a row in any text",
        found=f"{data['failed']} failed, {data['success']} done, {seconds:.1f} s; "
        f"{len(texts)} texts of {sum(map(len, texts.values())):,} characters",
        faults=faults,
        notes=sorted(_reasons(data)),
    )


async def _migrate(server: Process, fleet: Fleet) -> tuple[dict[str, str], Any, float]:
    """Return every text about a run, its result, and how long it took."""
    async with admin_client(server, fleet.ours.world) as client:
        began = time.monotonic()
        answer = await client.post(MIGRATE_ALL)
        seconds = time.monotonic() - began
        history = await newest_runs(client, 1)
    texts = {"the answer": answer.text, "the history": json.dumps(history)}
    return texts, answer.raise_for_status().json()["data"], seconds


def _shown(folder: Path, fleet: Fleet) -> str:
    with fleet.catalog() as catalog:
        run_id = catalog.runs()[0].id
    done = run(folder, "migrate", "show", str(run_id), **fleet.environment)
    return done.stdout + done.stderr


def _wrong_outcomes(fleet: Fleet, data: Any, broken: Mapping[int, Way]) -> list[str]:
    ways = {str(fleet.ours.ids[number]): way for number, way in broken.items()}
    faults = []
    if (data["total"], data["failed"]) != (len(fleet.urls), len(broken)):
        faults.append(f"{data['failed']} of {data['total']} failed")
    for one in data["details"]:
        way, error = ways.get(one["customerId"]), one["error"]
        if way is None and error is not None:
            faults.append(f"one that is well failed: {error}")
        elif way is not None and not re.search(way.cause, error or "no failure"):
            faults.append(f"{way.name}: {error}")
    return faults


def _reasons(data: Any) -> list[str]:
    return [one["error"] for one in data["details"] if one["error"] is not None]


def _add_last(fleet: Fleet) -> None:
    down = PENDING[-1].id
    text = (
        f"from alembic import op\n\nrevision = {LAST.id!r}\ndown_revision = {down!r}\n\n\n"
        f"def upgrade():\n    {LAST.alembic}\n"
    )
    folder = Path(fleet.environment["TENANTRY_TENANT_MIGRATIONS"])
    (folder / "versions" / f"{LAST.name}.py").write_text(text)


@contextmanager
def _servers(postgres: PostgresServer | None) -> Iterator[str]:
    """Yield the setting of three servers that accept no connection."""
    if postgres is None:
        yield "{}"
        return
    _ask_for_password(postgres)
    where = f"127.0.0.1:{postgres.port}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = {
            REFUSED: f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{free_port()}/postgres",
            HUNG: f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/postgres",
            LOCKED_OUT: f"postgresql://{ROLE}:{PASSWORD}@{where}/postgres",
        }
        yield json.dumps(urls)


def _ask_for_password(postgres: PostgresServer) -> None:
    rules = postgres.data / "pg_hba.conf"
    rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    raw_sql.run(
        postgres.url, f"CREATE ROLE {ROLE} LOGIN PASSWORD 'another'", "SELECT pg_reload_conf()"
    )


def _drop(stage: _Stage, number: int) -> None:
    url = stage.fleet.urls[number]
    path = sqlite_path(url)
    if path is not None:
        path.unlink()
        return
    server_url = url.rpartition("/")[0] + "/postgres"
    raw_sql.run(server_url, f'DROP DATABASE "{urlsplit(url).path[1:]}"')


def _overwrite(stage: _Stage, number: int) -> None:
    path = sqlite_path(stage.fleet.urls[number])
    assert path is not None
    path.write_text(ROW_VALUE * 100)


def _hold_table(stage: _Stage, number: int) -> None:
    """Leave a transaction open that has read from the table."""
    connection = stage.stack.enter_context(psycopg.connect(stage.fleet.urls[number]))
    connection.execute("SELECT count(*) FROM article")


def _hold_file(stage: _Stage, number: int) -> None:
    path = sqlite_path(stage.fleet.urls[number])
    assert path is not None
    file = stage.stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
    file.execute("BEGIN IMMEDIATE")


def _spoil_rows(stage: _Stage, number: int) -> None:
    stage.run(number, f"UPDATE article SET title = '{ROW_VALUE}' WHERE id < 3")


def _forget_revision(stage: _Stage, number: int) -> None:
    stage.run(number, "UPDATE alembic_version SET version_num = 'feedbeef'")


_UNKNOWN = Way("unknown revision", r"revision 'feedbeef', which is not among", _forget_revision)
POSTGRESQL_WAYS = (
    Way("missing database", r"does not exist \(SQLSTATE 3D000\)", _drop),
    Way("refused connection", r"has been away for", lambda at, one: at.move(one, REFUSED)),
    Way("hung connection", r"has been away for", lambda at, one: at.move(one, HUNG)),
    Way(
        "wrong password", r"refuses our role or password", lambda at, one: at.move(one, LOCKED_OUT)
    ),
    Way("broken revision", r"^0015_number_articles: .*SQLSTATE 22P02", _spoil_rows),
    Way("locked table", r"lock was not free in time.*SQLSTATE 55P03", _hold_table),
    _UNKNOWN,
)
SQLITE_WAYS = (
    Way("missing file", r"file does not exist, or cannot be opened", _drop),
    Way("no database", r"file is not a database", _overwrite),
    Way("broken revision", r"^0015_number_articles: .*UNIQUE constraint failed", _spoil_rows),
    Way("locked file", r"database is locked|did not answer in time", _hold_file),
    _UNKNOWN,
)
