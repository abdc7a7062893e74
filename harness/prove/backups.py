"""Backups of one tenant: P36."""

import asyncio
import json
import os
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from harness.api import MIGRATE_ALL, POSTS, as_admin, signed_in
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Line
from harness.prove.promise import Figure, Promise, Stage
from harness.world import Tenant, World
from tenantry.db.urls import sqlite_path
from testkit.postgres import find_binaries
from testkit.raw_sql import Raw
from testkit.revisions import AlembicFolder

COMMAND_SECONDS_MAX = 120
COLUMN = "op.add_column('tenantry_user', sa.Column('extra', sa.Integer))"


def p36(stage: Stage) -> Figure:
    """Back tenants up while they are written to, restore them one by one, migrate again."""
    faults: list[str] = []
    compared = 0
    for engine in ENGINES:
        tenants = stage.size({"sqlite": 20, "postgresql": 15}[engine], 2)
        world = stage.world(engine, tenants)
        backups = _Backups(stage, world, is_swapped="P36" in stage.faults)
        compared += backups.check(faults)
    return Figure(
        done=f"{compared} tenants backed up under writes (`tenantry backup create --all`), "
        "migrated, then restored one by one (`tenantry backup restore --replace`), and migrated",
        found=f"{compared - len(faults)} of {compared} with the posts of their archive, the "
        "others unchanged",
        faults=faults,
    )


class _Backups:
    """Takes backups of a world and restores them.

    Args:
        stage: Of the scenario.
        world: Its tenants.
        is_swapped: Whether each tenant gets the archive of another, which is the planted fault.
    """

    def __init__(self, stage: Stage, world: World, *, is_swapped: bool) -> None:
        self.stage = stage
        self.world = world
        self.is_swapped = is_swapped
        self.folder = stage.folder / f"backups-{len(world.tenants)}-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.revisions = AlembicFolder(self.folder / "revisions")
        self.revisions.add("r001_begin", "pass")
        self.settings = {
            "tenant_migrations": str(self.revisions.path),
            "backup_target": str(self.folder / "archives"),
            "pg_tools": str(find_binaries()),
        }

    def check(self, faults: list[str]) -> int:
        with self.stage.serving(self.world, **self.settings) as process:
            counts = asyncio.run(self._back_up_all(process.port, faults))
            self.revisions.add("r002_column", COLUMN)
            asyncio.run(self._migrate(process.port, faults))
            archives = {one["tenantId"]: one["archive"] for one in self.made}
            for tenant in self.world.tenants:
                self._restore_one(tenant, archives, counts, faults)
            asyncio.run(self._migrate(process.port, faults))
        for tenant in self.world.tenants:
            Raw(self._url(tenant)).run("SELECT extra FROM tenantry_user")  # raises if it is missing
        return len(self.world.tenants)

    async def _migrate(self, port: int, faults: list[str]) -> None:
        async with Line(port, as_admin(self.world)) as line:
            run = await line.post(MIGRATE_ALL)
            if not run.ok or run.data["failed"]:
                faults.append(f"migrate-all: {run}")

    async def _back_up_all(self, port: int, faults: list[str]) -> dict[str, int]:
        """Back everything up under writes; return how many posts each tenant had before."""
        await self._migrate(port, faults)
        writing = asyncio.create_task(self._write(port, faults))
        await asyncio.sleep(0.5)
        counts = {
            tenant.id: Raw(tenant.url).run("SELECT count(*) FROM tenantry_post")[0][0]
            for tenant in self.world.tenants
        }
        done = await asyncio.to_thread(self._tenantry, "backup", "create", "--all", "--json")
        self.made = done["items"]
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        return counts

    async def _write(self, port: int, faults: list[str]) -> None:
        async with Line(port) as line:
            for number in range(10**9):
                tenant = self.world.tenants[number % len(self.world.tenants)]
                post = {"title": f"Post {number}", "content": "x" * 500, "tags": ["a", "b"]}
                answer = await line.post(POSTS, post, headers=signed_in(tenant))
                if not answer.ok:
                    faults.append(f"during a backup: {answer}")

    def _restore_one(
        self,
        tenant: Tenant,
        archives: dict[str, str],
        counts: dict[str, int],
        faults: list[str],
    ) -> None:
        others = [one for one in self.world.tenants if one is not tenant]
        sample = [self._url(one) for one in self.stage.chance.sample(others, min(5, len(others)))]
        before = [_posts(url) for url in sample]
        archive = archives[others[0].id if self.is_swapped else tenant.id]
        self._tenantry("backup", "restore", archive, "--replace", tenant.id, "--json")
        found = _posts(self._url(tenant))
        if found != self._saved(Path(archives[tenant.id])):
            faults.append("a restored tenant differs from its archive")
        if len(found) < counts[tenant.id]:
            faults.append("posts are missing that were acknowledged before the backup")
        if [_posts(url) for url in sample] != before:
            faults.append("another tenant has changed")

    def _saved(self, archive: Path) -> list[tuple[Any, ...]]:
        """Return the posts in an archive, extracted with the standard tools."""
        folder = self.folder / archive.stem
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        target = folder / "database.out"
        parts = sorted(one for one in (folder / "database").iterdir() if one.suffix == "")
        target.write_bytes(b"".join(one.read_bytes() for one in parts))
        if target.read_bytes().startswith(b"SQLite format 3"):
            return _posts(f"sqlite:///{target}")
        url = self.stage.new_database()
        _run(find_binaries() / "pg_restore", "--no-owner", f"--dbname={url}", target)
        return _posts(url)

    def _url(self, tenant: Tenant) -> str:
        """Return the URL of the database that the tenant has now."""
        read = "SELECT database_name FROM tenant WHERE id = ?"
        ((name,),) = Raw(self.world.catalog_url).run(read, UUID(tenant.id))
        path = sqlite_path(tenant.url)
        if path is None:
            return f"{tenant.url.rpartition('/')[0]}/{name}"
        return f"sqlite:///{path.parents[2] / name[-2:] / name[-4:-2] / f'{name}.db'}"

    def _tenantry(self, *arguments: str) -> Any:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TENANTRY_")},
            **self.stage.environment(self.world, **self.settings),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tenantry", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            timeout=COMMAND_SECONDS_MAX,
            check=True,
        )
        return json.loads(done.stdout)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _posts(url: str) -> list[tuple[Any, ...]]:
    return sorted(Raw(url).run("SELECT slug, title, content, tags FROM tenantry_post"))


PROMISES = (
    Promise(
        36,
        "One tenant can be restored alone.",
        p36,
        "each tenant gets the archive of another",
        seconds_max=600,
    ),
)
