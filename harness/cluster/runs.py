"""Migration runs that an outage can meet in the middle, and what they must have done.

Each revision adds 1 to one counter, adds a column, pauses, and adds 1 to the other counter. So a
tenant between two states, and a revision that was applied twice or not at all, can be seen.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from harness.api import HISTORY, MIGRATE_ALL, bearer
from harness.world import Tenant
from testkit.revisions import AlembicFolder

FIRST = """
    op.create_table(
        "counted",
        sa.Column("id", sa.Integer, primary_key=True),  # an online move needs a key
        sa.Column("a", sa.Integer),
        sa.Column("b", sa.Integer),
    )
    op.execute("INSERT INTO counted VALUES (1, 0, 0)")
"""
# It pauses in a tenant, and not in the template of new ones, which has no user.
NEXT = """
    op.execute("UPDATE counted SET a = a + 1")
    op.add_column("counted", sa.Column("c{number}", sa.Integer))
    op.execute("SELECT pg_sleep({seconds}) FROM tenantry_user LIMIT 1")
    op.execute("UPDATE counted SET b = b + 1")
"""
UNDO = """
    op.execute("UPDATE counted SET b = b - 1")
    op.drop_column("counted", "c{number}")
    op.execute("SELECT pg_sleep({seconds}) FROM tenantry_user LIMIT 1")
    op.execute("UPDATE counted SET a = a - 1")
"""
RUN_SECONDS_MAX = 180
POLL_SECONDS = 0.1
ASK_SECONDS_MAX = 20
READ_AT_ONCE = 8
STATE_SQL = """
SELECT (SELECT a FROM counted), (SELECT b FROM counted),
    (SELECT count(*) FROM information_schema.columns
        WHERE table_name = 'counted' AND column_name LIKE 'c%'),
    (SELECT count(*) FILTER (WHERE stream = 'user') - count(*) FILTER (WHERE stream LIKE 'undone %')
        FROM tenantry_migration_log WHERE revision LIKE 'r%'),
    (SELECT version_num FROM alembic_version)
"""


class NoRun(Exception):
    """A run was not started, or did not end in time."""


@dataclass(frozen=True)
class Item:
    """A tenant in a run, as stored in the catalog."""

    server: str
    state: str
    error: str | None
    finished_at: float | None


@dataclass(frozen=True)
class Outcome:
    """A run that has ended.

    Attributes:
        stop_reason: Why it was stopped, if it was.
        items: Its tenants.
        pause: How many seconds the transaction of each tenant paused.
    """

    stop_reason: str | None
    items: Sequence[Item]
    pause: float

    def faults(self) -> list[str]:
        """Return the failed tenants, and a stop of the run."""
        failed = [
            f"a tenant has failed: {one.error}" for one in self.items if one.state == "failed"
        ]
        stopped = [f"the run was stopped: {self.stop_reason}"] if self.stop_reason else []
        return failed + stopped

    def seconds_to_resume(self, server: str | None, since: float) -> float | None:
        """Return how long after *since* the first transaction of a later tenant began.

        Args:
            server: The name of a tenant server; None is all of them.
            since: In seconds since the epoch.

        Returns:
            None if no tenant was left.
        """
        begun = [
            one.finished_at - self.pause - since
            for one in self.items
            if server in {None, one.server} and one.finished_at is not None
        ]
        return min((one for one in begun if one > 0), default=None)


class Runs:
    """Starts runs over the API, and reads them from the catalog.

    Args:
        folder: For the folders of revisions, one for each release; it is created.
        urls: Returns the URLs of the API processes that run.
        admin_token: The token of an admin.
        catalog_url: The URL of the catalog, for reading.
    """

    def __init__(
        self, folder: Path, urls: Callable[[], list[str]], admin_token: str, catalog_url: str
    ) -> None:
        self._folder = folder
        self._releases = 1
        self._revisions = AlembicFolder(folder / "release1")
        self._revisions.add("begin_create_counted", FIRST)
        self.count = 0
        self._is_ahead = self._is_undone = False
        self._pause = 0.0
        self._urls = urls
        self._headers = bearer(admin_token) | {"prefer": "respond-async"}
        self._catalog_url = catalog_url

    @property
    def revisions(self) -> Path:
        """The folder of the revisions of the current release."""
        return self._revisions.path

    @property
    def heads(self) -> Sequence[int]:
        """Where the tenants may be after a run.

        A process of the next release migrates the rest of a run to its own head.
        """
        if self._is_undone:
            return [self.count - 1]
        return [self.count, self.count + 1] if self._is_ahead else [self.count]

    def add_revision(self, seconds: float) -> None:
        """Add a revision that takes *seconds* in each tenant."""
        self.count += 1 + self._is_ahead
        self._is_ahead = self._is_undone = False
        self._pause = seconds
        self._write(self.count, seconds)

    def begin_release(self) -> None:
        """Begin the next release: a copy of the folder with one more revision."""
        self._releases += 1
        folder = self._folder / f"release{self._releases}"
        last = self._revisions.last
        shutil.copytree(self.revisions, folder)
        self._revisions = AlembicFolder(folder, last)
        self._is_ahead = True
        self._write(self.count + 1, 0)

    def _write(self, number: int, seconds: float) -> None:
        values = {"number": number, "seconds": seconds}
        self._revisions.add(
            f"r{number:03}_count", NEXT.format(**values), undo=UNDO.format(**values)
        )

    def begin(self) -> str:
        """Start a run that ends at the first failure, and return its id."""
        return self._begin(MIGRATE_ALL)

    def begin_undo(self) -> str:
        """Migrate all tenants twice; then start a run that undoes the second, and return its id."""
        self.await_end(self.begin())  # perhaps the first run of all, which creates the table
        self.add_revision(self._pause)
        run_id = self.begin()
        self.await_end(run_id)
        self._is_undone = True
        return self._begin(f"{HISTORY}/{run_id}/undo")

    def places(self) -> Mapping[str, tuple[str, str]]:
        """Return the server and the database of each tenant, by its id."""
        rows = self._query("SELECT id::text, server_name, database_name FROM tenant")
        return {tenant_id: (server, database) for tenant_id, server, database in rows}

    def _begin(self, path: str) -> str:
        ends, said = time.monotonic() + ASK_SECONDS_MAX, ""
        while time.monotonic() < ends:
            with suppress(httpx.TransportError):
                answer = httpx.post(
                    self._urls()[0] + path,
                    headers=self._headers,
                    json={"maxFailures": 0},
                    timeout=ASK_SECONDS_MAX,
                    verify=False,  # noqa: S501 - no TLS here
                )
                if answer.is_success:
                    return str(answer.json()["data"]["id"])
                said = answer.text
            time.sleep(POLL_SECONDS)
        raise NoRun(f"{path} was not accepted: {said}")

    def await_done(self, run_id: str, count: int) -> None:
        """Wait until *count* tenants of the run are done.

        Raises:
            NoRun: They are not in time.
        """
        self._await(lambda run: run["success_count"] + run["failed_count"] >= count, run_id)

    def await_end(self, run_id: str) -> Outcome:
        """Wait until the run has ended.

        Raises:
            NoRun: It does not in time.
        """
        run = self._await(lambda run: run["finished_at"] is not None, run_id)
        rows = self._query(
            "SELECT server_name, state, error, extract(epoch FROM finished_at)::float8 "
            "FROM tenant_migration WHERE run_id = %s",
            run_id,
        )
        return Outcome(run["stop_reason"], [Item(*row) for row in rows], self._pause)

    def _await(self, holds: Callable[[dict[str, Any]], bool], run_id: str) -> dict[str, Any]:
        ends = time.monotonic() + RUN_SECONDS_MAX
        run: dict[str, Any] = {}
        while time.monotonic() < ends:
            with suppress(psycopg.Error):
                row = self._query(
                    "SELECT success_count, failed_count, total_count, finished_at, stop_reason "
                    "FROM migration_run WHERE id = %s",
                    run_id,
                )[0]
                names = (
                    "success_count",
                    "failed_count",
                    "total_count",
                    "finished_at",
                    "stop_reason",
                )
                run = dict(zip(names, row, strict=True))
                if holds(run):
                    return run
            time.sleep(POLL_SECONDS)
        raise NoRun(f"the run is not as expected within {RUN_SECONDS_MAX} s: {run}")

    def _query(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._catalog_url, connect_timeout=2) as connection:
            return connection.execute(sql.encode(), values).fetchall()


def faults_of_states(tenants: Sequence[Tenant], heads: Sequence[int]) -> list[str]:
    """Return the tenants that are not exactly at one of the revisions *heads*."""
    wanted = [(head, head, head, head, f"r{head:03}") for head in heads]

    def read(tenant: Tenant) -> str | None:
        with psycopg.connect(tenant.url) as connection:
            found = connection.execute(STATE_SQL.encode()).fetchone()
        return None if found in wanted else f"a tenant is at {found}, not at {wanted}"

    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        return [one for one in threads.map(read, tenants) if one]


def lost_writes(tenants: Sequence[Tenant], posts: Mapping[str, list[str]]) -> list[str]:
    """Return the acknowledged posts that are missing."""

    def read(tenant: Tenant) -> list[str]:
        wanted = posts.get(tenant.id, [])
        with psycopg.connect(tenant.url) as connection:
            found = {row[0] for row in connection.execute(b"SELECT title FROM tenantry_post")}
        return [f"an acknowledged write is lost: {title}" for title in wanted if title not in found]

    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        return [one for many in threads.map(read, tenants) for one in many]
