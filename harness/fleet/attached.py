"""Attached databases for the checks: a project of Alembic's that grows, and what must hold of them.

Each revision inserts its number into `mark` and adds a column to `wide`. So it shows if one was
applied twice, not at all, or half.
"""

import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from harness.fleet.states import LOG
from tenantry.db.urls import sqlite_path
from tenantry.migration.schema_state import CLOSED
from testkit.postgres import create_database
from testkit.raw_sql import columns, connected

AT_ONCE = 4
REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "{number:04}"
down_revision = {down}
online = {live}

def upgrade():
    {first}op.execute("INSERT INTO mark (number) VALUES ({number})")
    op.add_column("wide", sa.Column("c{number}", sa.Integer))
    op.execute("{wait}")

def downgrade():
    pass
"""
FIRST = (
    'op.execute("CREATE TABLE mark (number INTEGER NOT NULL)")\n'
    '    op.execute("CREATE TABLE wide (id INTEGER PRIMARY KEY)")\n    '
)
# So that a run takes long enough to be hit in the middle of a transaction.
WAITS = {
    "postgresql": "DO $$BEGIN PERFORM pg_sleep(0.02); END$$",
    "sqlite": "INSERT INTO wide (id) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
    "FROM n WHERE i < 40000) SELECT max(i) FROM n HAVING max(i) < 0",
}


@dataclass
class Attached:
    """A project, its databases, their list, and the state of the fleet.

    Attributes:
        folder: Of the project.
        engine: Of the databases.
        state: The URL of the state.
        urls: Of the databases, by name.
        last: The number of the newest revision.
    """

    folder: Path
    engine: str
    state: str
    urls: Mapping[str, str]
    last: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command that migrates."""
        path = sqlite_path(self.state)
        state = self.state if path is None else str(path)
        return ("fleet", "migrate", "--urls", "databases.txt", "--state", state)

    def grow(self, count: int) -> None:
        """Add *count* revisions; every second one is run live."""
        versions = self.folder / "migrations" / "versions"
        for number in range(self.last + 1, self.last + count + 1):
            text = REVISION.format(
                number=number,
                down=repr(f"{number - 1:04}") if number > 1 else None,
                live=number % 2 == 0,
                first=FIRST if number == 1 else "",
                wait=WAITS[self.engine],
            )
            (versions / f"{number:04}_step.py").write_text(text)
        self.last += count

    def steps(self) -> dict[str, "Steps"]:
        """Return what each database has applied."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return dict(zip(self.urls, threads.map(_read, self.urls.values()), strict=True))

    def faults(self, *, is_done: bool) -> list[str]:
        """Return what is wrong with the databases and the state; with *is_done*, after a run."""
        found = [
            f"{name}: {fault}"
            for name, steps in self.steps().items()
            for fault in steps.faults(self.last if is_done else None)
        ]
        path = sqlite_path(self.state)
        if path is not None and path.exists():
            checks = ("PRAGMA integrity_check", "PRAGMA foreign_key_check")
            with connected(self.state) as query:
                said = [row for check in checks for row in query(check)]
            if said != [("ok",)]:
                found.append(f"the state is not whole: {said[:3]}")
        return found

    def faults_of_history(self) -> list[str]:
        """Return what is wrong with the history: each revision once, in runs that have ended."""
        with connected(self.state) as query:
            unfinished = query("SELECT id FROM migration_run WHERE finished_at IS NULL")
            applied = query(
                "SELECT name, applied FROM tenant_migration JOIN tenant ON id = tenant_id "
                "WHERE applied IS NOT NULL"
            )
        found = [f"the run {run} has not ended" for (run,) in unfinished]
        wanted = Counter(f"{number:04}_step" for number in range(1, self.last + 1))
        recorded: dict[str, Counter[str]] = {name: Counter() for name in self.urls}
        for name, text in applied:
            recorded[name].update(text.split(","))
        for name, counted in recorded.items():
            if counted != wanted:
                lacks, has_more = [*(wanted - counted)], [*(counted - wanted)]
                found.append(f"{name}: the history lacks {lacks} and has {has_more} too often")
        return found


@dataclass(frozen=True)
class Steps:
    """What one database has applied: by its version, its marks, its columns, and its log."""

    version: str | None
    marks: Sequence[int] = field(default=())
    added: Sequence[int] = field(default=())
    logged: Sequence[int] = field(default=())

    def faults(self, last: int | None) -> Iterator[str]:
        """Return what contradicts something else, or a database at *last*."""
        number = int(self.version or 0)
        if last is not None and number != last:
            yield f"it is at {number}, not at {last}"
        wanted = list(range(1, number + 1))
        for name in ("marks", "added", "logged"):
            found = list(getattr(self, name))
            if found != wanted:
                yield f"at {number}, {name} are {found}"


def make_attached(
    folder: Path, engine: str, count: int, *, server_url: str, shares: bool = False
) -> Attached:
    """Return *count* new databases of a new project.

    Args:
        folder: For everything; it must not be there.
        engine: Of the databases.
        count: How many.
        server_url: Of a superuser on PostgreSQL.
        shares: Whether the state is on PostgreSQL, too.
    """
    versions = folder / "migrations" / "versions"
    versions.mkdir(parents=True)
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
    (folder / "migrations" / "env.py").write_text("")
    names = [f"d{number:02}" for number in range(count)]
    if engine == "postgresql":
        mark = secrets.token_hex(4)
        urls = {name: create_database(server_url, f"attached_{mark}_{name}") for name in names}
    else:
        urls = {name: f"sqlite:///{folder}/{name}.db" for name in names}
        for name in names:
            (folder / f"{name}.db").touch()
    listed = "".join(f"{name} {url}\n" for name, url in urls.items())
    (folder / "databases.txt").write_text(listed)
    state = f"sqlite:///{folder}/state.db"
    if shares:
        state = create_database(server_url, f"state_{secrets.token_hex(4)}")
    return Attached(folder, engine, state, urls)


def _read(url: str) -> Steps:
    with connected(url) as query:
        try:
            versions = query("SELECT version_num FROM alembic_version")
        except (sqlite3.Error, psycopg.errors.UndefinedTable):
            versions = []  # the first transaction has not been committed
        if not versions:
            return Steps(None)
        marks = query("SELECT number FROM mark ORDER BY number")
        # The entry that closes the run of a killed command is of no revision.
        applied = f"SELECT revision FROM {LOG} WHERE stream NOT LIKE '{CLOSED}%'"
        logged = query(f"{applied} ORDER BY position")
    return Steps(
        ",".join(name for (name,) in versions),
        [number for (number,) in marks],
        sorted(int(name[1:]) for name in columns(url, "wide") if name != "id"),
        [int(name.partition("_")[0]) for (name,) in logged],
    )
