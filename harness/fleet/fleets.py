"""Fleets for the checks: many equal tenants, with revisions that can be undone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from harness import postgres
from harness.fleet import ours
from harness.fleet.history import BEHIND, PENDING
from harness.fleet.ours import Ours
from harness.fleet.states import State, read_state
from harness.world import Size, make_world
from testkit.raw_sql import Query, connected

Found = TypeVar("Found")

NAMES = [step.name for step in PENDING]
UNDO = (
    "DROP TABLE bookmark",
    "ALTER TABLE article DROP COLUMN weight",
    f"UPDATE alembic_version SET version_num = '{BEHIND}'",
)
AT_ONCE = 4
ENGINES = ("sqlite", "postgresql")
ENGINE_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True)
class Part:
    """A tenant in a run, as stored in the catalog."""

    tenant_id: UUID
    state: str
    applied: str | None
    error: str | None


@dataclass(frozen=True)
class Run:
    """A run, as stored in the catalog."""

    id: UUID
    is_finished: bool
    total: int
    success: int
    failed: int


class RunLost(Exception):
    """A run is missing from the catalog."""


@dataclass(frozen=True)
class Fleet:
    """Tenants of one catalog, all alike.

    Attributes:
        ours: The catalog and the tenants.
        environment: The settings of a process that works on them.
        before: What each holds where something is pending.
        after: What it holds at the head.
    """

    ours: Ours
    environment: Mapping[str, str]
    before: str
    after: str

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the databases."""
        return self.ours.tenants.urls

    @property
    def catalog_url(self) -> str:
        """The URL of the catalog."""
        return self.ours.world.catalog_url

    def undo(self) -> None:
        """Undo the pending revisions in every tenant."""
        self.each(undo)

    def read_states(self) -> dict[UUID, State]:
        """Return the state of every tenant."""
        return dict(zip(self.ours.ids, self.each(read_state), strict=True))

    def each(self, work: Callable[[str], Found]) -> list[Found]:
        """Return the result of *work* for every database, a few concurrently."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(work, self.urls))

    @contextmanager
    def catalog(self) -> Iterator["Catalog"]:
        """Yield the catalog, read from outside."""
        with connected(self.catalog_url) as query:
            yield Catalog(query)


@dataclass(frozen=True)
class Catalog:
    """A catalog, read from outside."""

    query: Query

    def runs(self) -> list[Run]:
        """Return every run, the newest first."""
        sql = (
            "SELECT id, finished_at IS NOT NULL, total_count, success_count, failed_count "
            "FROM migration_run ORDER BY started_at DESC, id DESC"
        )
        return [
            Run(UUID(str(run_id)), bool(ended), total, success, failed)
            for run_id, ended, total, success, failed in self.query(sql)
        ]

    def run(self, run_id: UUID) -> Run:
        """Return one run.

        Raises:
            RunLost: It is not there.
        """
        for run in self.runs():
            if run.id == run_id:
                return run
        raise RunLost(str(run_id))

    def items(self, run_id: UUID) -> list[Part]:
        """Return every tenant of a run."""
        # SQLite has the one form, PostgreSQL understands both.
        sql = (
            "SELECT tenant_id, state, applied, error FROM tenant_migration "
            f"WHERE run_id = '{run_id.hex}'"
        )
        return [Part(UUID(str(one)), *rest) for one, *rest in self.query(sql)]


def undo(url: str) -> None:
    """Undo the pending revisions in one tenant, if they were applied."""
    with connected(url) as query:
        if query("SELECT version_num FROM alembic_version") != [(BEHIND,)]:
            for sql in UNDO:
                query(sql)


def make_fleet(
    folder: Path,
    count: int,
    *,
    server_url: str | None,
    catalog_on: str | None = None,
    live: bool = False,
    **settings: str,
) -> Fleet:
    """Return a new fleet of *count* tenants.

    Args:
        folder: For its files; it must not be there.
        count: How many tenants.
        server_url: Of a superuser on PostgreSQL; None is SQLite.
        catalog_on: Of a superuser on another server, for the catalog.
        live: Whether the pending revisions are run live.
        settings: Of the processes that work on it, such as ``log_level``.
    """
    catalog = postgres.new_catalog(catalog_on) if catalog_on else None
    world = make_world(folder, Size(1), catalog_url=catalog, server_url=server_url)
    made = ours.make(world, folder / "fleet", count, server_url)
    made.tenants.reset(count)
    revisions = made.live_revisions if live else made.revisions
    environment = {
        **world.environment,
        "TENANTRY_TENANT_MIGRATIONS": str(revisions),
        **{f"TENANTRY_{name.upper()}": value for name, value in settings.items()},
    }
    # What a revision leaves behind when it is undone is there before anything is compared.
    made.migrate_all(count, live=live)
    fleet = Fleet(made, environment, "", "")
    after = read_state(fleet.urls[0]).content
    fleet.undo()
    return Fleet(made, environment, read_state(fleet.urls[0]).content, after)
