"""What the rows share: the machine, PostgreSQL, worlds, and servers over them."""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from harness import postgres, wire
from harness.bench import blogs
from harness.bench.interleave import Pace
from harness.machine import Cores
from harness.processes import SOURCE, Process, environment, serving, started
from harness.world import Size, Tenant, User, World, make_world

# 256 tokens of 16 tenants.
SIZE = Size(tenants=16, users=16)
BLOG_POSTS = 1_000
LARGE_BLOG_POSTS = 100_000
BEFORE = ", before"
WORLD_SECONDS_MAX = 300
# Run with the modules of another checkout: folder, tenants, users, URL.
MAKE_WORLD = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from harness.world import Size, make_world

folder, tenants, users, url = sys.argv[1:]
world = make_world(Path(folder), Size(int(tenants), int(users)), server_url=url or None)
print(json.dumps({**asdict(world), "facts": str(world.facts)}))
"""


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        pace: Of what is counted in requests.
        login_seconds: Of a window of logins, of which there are some forty in a second.
        storm_rounds: Of idle, storm and control.
        storm_seconds: Of each of them.
        provisioned: Tenants made to see how long one takes.
        memory_sqlite: Tenants that are touched.
        memory_postgresql: Likewise.
        crowd: Tenants in the catalog of the rows of a million.
        versioned_posts: Posts of the tenants with versions; in the rows of copies a tenth.
        copied_mb: The size of the tenant that is saved and restored.
        with_peers: Whether the peers are measured too.
        before: Another checkout of Tenantry, measured in turn with this one.
        profile_seconds: How long each of our servers is profiled afterwards; 0 is not at all.
    """

    pace: Pace
    login_seconds: float
    storm_rounds: int
    storm_seconds: float
    provisioned: int
    memory_sqlite: int
    memory_postgresql: int
    crowd: int
    versioned_posts: int
    copied_mb: int
    with_peers: bool
    before: Path | None
    profile_seconds: int


class Bench:
    """What the rows share. What is expensive is made when the first row needs it.

    Args:
        plan: How much is measured.
        cores: Who runs where.
        folder: On a disk; everything is kept in it.
        stack: Ends what was begun.
    """

    def __init__(self, plan: Plan, cores: Cores, folder: Path, stack: ExitStack) -> None:
        self.plan = plan
        self.cores = cores
        self.folder = folder
        self._stack = stack

    @functools.cached_property
    def postgres_url(self) -> str:
        """A superuser's database of a durable server."""
        # Beside the folder, not in it: its user may not be let into ours.
        folder = self.folder.with_name(self.folder.name + "-postgresql")
        return self._stack.enter_context(postgres.durable_server(folder))

    @functools.cached_property
    def on_postgresql(self) -> World:
        """The world of most rows."""
        return self.new_world("postgresql", SIZE)

    @functools.cached_property
    def of_blogs(self) -> World:
        """Tenants with `BLOG_POSTS` each, and a last one with `LARGE_BLOG_POSTS`."""
        world = self.new_world("postgresql-blogs", Size(SIZE.tenants + 1))
        with postgres.careless(self.postgres_url):
            for tenant in world.tenants[:-1]:
                blogs.fill(tenant.url, BLOG_POSTS)
            blogs.fill(world.tenants[-1].url, LARGE_BLOG_POSTS)
        return world

    @functools.cached_property
    def for_logins(self) -> World:
        """The same again, with unchanged login addresses."""
        return self.new_world("postgresql-logins", Size(SIZE.tenants, SIZE.users))

    @functools.cached_property
    def on_sqlite(self) -> World:
        """The same in files."""
        return self.new_world("sqlite", Size(SIZE.tenants, SIZE.users))

    def new_world(self, name: str, size: Size) -> World:
        """Return a world of its own; on PostgreSQL if *name* begins so."""
        folder = self.folder / name
        if not name.startswith("postgresql"):
            return make_world(folder, size)
        url = self.postgres_url
        with postgres.careless(url):
            return make_world(folder, size, server_url=url)

    def world_of_before(self, name: str, size: Size) -> World:
        """Return a world that the other checkout makes, with its revisions and its programs."""
        before = self.plan.before
        assert before is not None
        url = self.postgres_url if name.startswith("postgresql") else ""
        arguments = [str(self.folder / name), str(size.tenants), str(size.users), url]
        made = subprocess.run(
            [sys.executable, "-c", MAKE_WORLD, *arguments],
            env={**environment(), "PYTHONPATH": f"{before / 'src'}{os.pathsep}{before}"},
            cwd=self.folder,
            check=True,
            stdout=subprocess.PIPE,
            timeout=WORLD_SECONDS_MAX,
        )
        found = json.loads(made.stdout)
        tenants = [
            Tenant(**one | {"users": [User(**user) for user in one["users"]]})
            for one in found["tenants"]
        ]
        return World(found["environment"], tenants, found["admin_token"], Path(found["facts"]))

    def copy_of(self, world: World, name: str) -> World:
        """Return a copy of a world in files that no process serves."""
        folder = self.folder / name
        shutil.copytree(self.folder / "sqlite", folder)
        environment = {**world.environment, "TENANTRY_DATA_DIR": str(folder / "data")}
        return replace(world, environment=environment)

    def with_before(
        self, stack: ExitStack, name: str, world: World, **settings: str
    ) -> dict[str, Process]:
        """Run Tenantry, and the other checkout of it if there is one; return them by name."""
        found = {name: (world, SOURCE)}
        if self.plan.before is not None:
            other = world if "TENANTRY_CATALOG_URL" in world.environment else None
            other = other or self.copy_of(world, f"sqlite-before-{len(settings)}")
            found[name + BEFORE] = (other, self.plan.before / "src")
        return {
            one: stack.enter_context(self.ours(its, source=source, **settings))
            for one, (its, source) in found.items()
        }

    def ours(
        self,
        world: World,
        *,
        module: Sequence[str] = ("tenantry",),
        source: Path = SOURCE,
        **settings: str,
    ) -> AbstractContextManager[Process]:
        """Run Tenantry as an operator does, with its defaults.

        Args:
            world: That it serves.
            module: What is run instead of it.
            source: The folder of the package.
            settings: That differ from the defaults, such as ``sqlite_synchronous``.
        """
        added = {f"TENANTRY_{name.upper()}": value for name, value in settings.items()}
        return serving(
            self.folder,
            {**world.environment, **added},
            name="-".join(module).replace(".", "-"),
            module=module,
            core=self.cores.server,
            source=source,
        )

    def supervised(self, world: World, workers: int) -> AbstractContextManager[Process]:
        """Run Tenantry with this number of serving processes, on one core."""
        options = ("--workers", str(workers))
        core = self.cores.server
        return serving(self.folder, world.environment, options=options, core=core)

    def bare(self, name: str, answer: wire.Answer) -> AbstractContextManager[Process]:
        """Run the bare application, which gives the same *answer* to everything."""
        path = self.folder / f"answer-{name}"
        headers = "\n".join(f"{one}: {value}" for one, value in answer.headers)
        path.write_bytes(f"{answer.status}\n{headers}\n\n".encode() + answer.body)
        return self.peer("bare", str(path))

    def peer(self, module: str, argument: str) -> AbstractContextManager[Process]:
        """Run one of `harness.bench.servers`."""
        return started(
            module,
            [f"harness.bench.servers.{module}", "{port}", argument],
            folder=self.folder,
            core=self.cores.server,
        )
