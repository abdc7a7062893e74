"""What the rows share: PostgreSQL, catalogs with their tenants, and the peers' projects."""

import functools
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import postgres
from harness.bench.fleet.peers import alembic_project, dbmate, schemas
from harness.driver import say
from harness.fleet import ours
from harness.fleet.listed import Listed, make_listed
from harness.fleet.ours import Ours
from harness.world import Size, make_world

# Who has a thousand databases does not want to hear of each of them all the time; and what
# is measured is not to wait for a checkpoint that is another's.
SETTINGS = """
autovacuum = off
shared_buffers = '512MB'
max_wal_size = '8GB'
"""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: Of every contender.
        postgresql: Tenants on PostgreSQL.
        sqlite: Tenants in files.
        many: Tenants on PostgreSQL, to see whether the last ones are slower.
        few: The number of tenants for the comparison of memory.
        commands: Tenants that are migrated with Alembic's command line.
        looped: Files that are migrated with Alembic in a loop.
        attached: Databases on PostgreSQL that are not Tenantry's.
    """

    rounds: int
    postgresql: int
    sqlite: int
    many: int
    few: int
    commands: int
    looped: int
    attached: int


class Yard:
    """What the rows share. What is expensive is made when the first row needs it.

    Args:
        plan: How much is measured.
        folder: On a disk; everything is kept in it.
        stack: Ends what was begun.
    """

    def __init__(self, plan: Plan, folder: Path, stack: ExitStack) -> None:
        self.plan = plan
        self.folder = folder
        self._stack = stack

    @functools.cached_property
    def server_url(self) -> str:
        """A superuser's database of a durable server."""
        # Beside the folder, not in it: its user may not be let into ours.
        folder = self.folder.with_name(self.folder.name + "-postgresql")
        return self._stack.enter_context(postgres.durable_server(folder, SETTINGS))

    @functools.cached_property
    def on_postgresql(self) -> Ours:
        """The tenants of most rows."""
        return self._make("postgresql", self.plan.postgresql)

    @functools.cached_property
    def many_on_postgresql(self) -> Ours:
        """A catalog with many more."""
        return self._make("postgresql_many", self.plan.many)

    @functools.cached_property
    def on_sqlite(self) -> Ours:
        """Tenants in files."""
        return self._make("sqlite", self.plan.sqlite)

    @functools.cached_property
    def listed(self) -> Listed:
        """Databases that are not Tenantry's."""
        count, folder = self.plan.attached, self._folder("listed")
        return make_listed(self.alembic, folder, count, self.server_url)

    @functools.cached_property
    def alembic(self) -> alembic_project.Project:
        """A project of Alembic's."""
        return alembic_project.Project(self._folder("alembic"))

    @functools.cached_property
    def dbmate(self) -> dbmate.Project:
        """A project of dbmate's."""
        return dbmate.Project(self._folder("dbmate"))

    @functools.cached_property
    def schemas(self) -> schemas.Project:
        """A project of django-tenants, with as many schemas as there are tenants."""
        say(f"making {self.plan.postgresql} schemas with django-tenants")
        return schemas.make_project(self._folder("django"), self.server_url, self.plan.postgresql)

    def _make(self, name: str, count: int) -> Ours:
        say(f"making {count:,} tenants ({name})")
        world_folder = self.folder / name
        if name == "sqlite":
            return ours.make(make_world(world_folder, Size(1)), self._folder("files"), count, None)
        url = self.server_url
        with postgres.careless(url):
            world = make_world(world_folder, Size(1), server_url=url)
            return ours.make(world, self._folder(f"{name}_fleet"), count, url)

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder
