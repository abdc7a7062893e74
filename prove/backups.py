"""Backups of one tenant: P36."""

import asyncio
import hashlib
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.world import Tenant, World
from tests.acceptance.support import Raw
from tests.integration.revisions import AlembicFolder
from tests.postgres import find_binaries

from prove.calls import (
    MIGRATE_ALL,
    POSTS,
    Line,
    as_admin,
    signed_in,
)
from prove.promise import ENGINES, Figure, Promise, Stage
from tenantry.db.urls import sqlite_path

COLUMN = "op.add_column('tenantry_user', sa.Column('extra', sa.Integer))"


def p36(stage: Stage) -> Figure:
    """Back tenants up while they are written to, restore them one by one, migrate again."""
    faults: list[str] = []
    compared = 0
    for engine in ENGINES:
        tenants = stage.size({"sqlite": 60, "postgresql": 40}[engine], 4)
        world = stage.world(engine, tenants)
        backups = _Backups(stage, world, is_copied="P36" in stage.faults)
        compared += backups.check(faults)
    return Figure(
        done=f"{compared} tenants backed up under writes (VACUUM INTO; pg_dump), migrated, then "
        "restored one by one as docs/howto/deploy.md says, and migrated again",
        found=f"{compared - len(faults)} of {compared} equal row by row, the others unchanged",
        faults=faults,
    )


class _Backups:
    """Takes backups of a world and restores them.

    Args:
        stage: Of the scenario.
        world: Its tenants.
        is_copied: Whether the files are copied instead, which is the planted fault.
    """

    def __init__(self, stage: Stage, world: World, *, is_copied: bool) -> None:
        self.stage = stage
        self.world = world
        self.is_copied = is_copied
        self.folder = stage.folder / f"backups-{len(world.tenants)}-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.revisions = AlembicFolder(self.folder / "revisions")
        self.revisions.add("r001_begin", "pass")
        self.settings = {"tenant_migrations": str(self.revisions.path)}
        self.digests: dict[str, str] = {}

    def check(self, faults: list[str]) -> int:
        with self.stage.serving(self.world, **self.settings) as process:
            asyncio.run(self._back_up_all(process.port, faults))
            self.revisions.add("r002_column", COLUMN)
            asyncio.run(self._migrate(process.port, faults))
        for tenant in self.world.tenants:
            self._restore_one(tenant, faults)
        with self.stage.serving(self.world, **self.settings) as process:
            asyncio.run(self._migrate(process.port, faults))
        for tenant in self.world.tenants:
            Raw(tenant.url).run("SELECT extra FROM tenantry_user")  # raises if it is not there
        return len(self.world.tenants)

    async def _migrate(self, port: int, faults: list[str]) -> None:
        async with Line(port, as_admin(self.world)) as line:
            run = await line.post(MIGRATE_ALL)
            if not run.ok or run.data["failed"]:
                faults.append(f"migrate-all: {run}")

    async def _back_up_all(self, port: int, faults: list[str]) -> None:
        await self._migrate(port, faults)
        writing = asyncio.create_task(self._write(port, faults))
        await asyncio.sleep(0.5)
        for tenant in self.world.tenants:
            await asyncio.to_thread(self._back_up, tenant)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing

    async def _write(self, port: int, faults: list[str]) -> None:
        async with Line(port) as line:
            for number in range(10**9):
                tenant = self.world.tenants[number % len(self.world.tenants)]
                post = {"title": f"Post {number}", "content": "x" * 500, "tags": ["a", "b"]}
                answer = await line.post(POSTS, post, headers=signed_in(tenant))
                if not answer.ok:
                    faults.append(f"during a backup: {answer}")

    def _back_up(self, tenant: Tenant) -> None:
        target = self.folder / tenant.id
        path = sqlite_path(tenant.url)
        if path is None:
            # What was dumped is what a restore into another database holds.
            _run("pg_dump", "--format=custom", f"--file={target}", tenant.url)
            second = self.stage.new_database()
            _run("pg_restore", "--no-owner", f"--dbname={second}", str(target))
            self.digests[tenant.id] = _digest(second)
            return
        before = Raw(tenant.url).run("SELECT count(*) FROM tenantry_post")[0][0]
        if self.is_copied:
            shutil.copyfile(path, target)
        else:
            with closing(sqlite3.connect(path)) as file:
                file.execute("VACUUM INTO ?", [str(target)])
        copy = Raw(f"sqlite:///{target}")
        try:
            after = copy.run("SELECT count(*) FROM tenantry_post")[0][0]
            # Everything that was acknowledged before the backup began is in it.
            self.digests[tenant.id] = _digest(copy.url) if after >= before else "rows are missing"
        except sqlite3.DatabaseError as error:
            self.digests[tenant.id] = f"not readable: {error}"

    def _restore_one(self, tenant: Tenant, faults: list[str]) -> None:
        others = [one for one in self.world.tenants if one is not tenant]
        sample = self.stage.chance.sample(others, min(5, len(others)))
        before = [_digest(one.url) for one in sample]
        backup = self.folder / tenant.id
        path = sqlite_path(tenant.url)
        if path is None:
            _run("pg_restore", "--clean", "--if-exists", f"--dbname={tenant.url}", str(backup))
        else:
            for suffix in ("-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            shutil.copyfile(backup, path)
        try:
            digest = _digest(tenant.url)
        except sqlite3.DatabaseError as error:
            digest = str(error)
        if digest != self.digests[tenant.id]:
            faults.append(f"a restored tenant differs: {self.digests[tenant.id]}")
        if [_digest(one.url) for one in sample] != before:
            faults.append("another tenant has changed")


def _run(program: str, *arguments: str) -> None:
    subprocess.run([find_binaries() / program, *arguments], check=True, capture_output=True)


def _digest(url: str) -> str:
    # What a database returns first is not what another one does.
    rows = sorted(Raw(url).dump().split("\n"))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


PROMISES = (
    Promise(
        36,
        "One tenant can be restored alone.",
        p36,
        "the backup is a copy of the file",
        seconds_max=600,
    ),
)
