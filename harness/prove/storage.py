"""Many databases, and full disks: P31, P32."""

import asyncio
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg

from harness.api import MIGRATE_ALL, POSTS, PROFILE, as_admin, signed_in
from harness.fleet.fleets import ENGINE_NAMES
from harness.machine import filesystem
from harness.processes import Process
from harness.prove.calls import Line, each, login
from harness.prove.promise import Figure, NotShown, Promise, Stage
from harness.world import PASSWORD, Size, Tenant, World, make_world
from tenantry.db.urls import sqlite_path
from testkit.postgres import MEMORY, MEMORY_BYTES_MIN
from testkit.revisions import AlembicFolder

CONNECTIONS_MAX = 64

OF_FILES = 0.8

GROWN_MIB_MAX = 8

TOUCHES = 3

DISK_MIB = 64

RECOVERED_SECONDS_MAX = 10

SAMPLE_SECONDS = 0.1

# 507: there is no space (RFC 4918, 11.5). 503: the disk cannot be read.
REFUSED = frozenset({503, 507})


def p31(stage: Stage) -> Figure:
    """Touch thousands of tenants in random order, by one process."""
    faults: list[str] = []
    notes = []
    with _in_memory(stage) as placed:
        for engine, whole in (("sqlite", 5_000), ("postgresql", 1_000)):
            tenants = stage.size(whole, 120)
            world = placed.world(engine, tenants)
            with placed.serving(world, tenant_connections=str(CONNECTIONS_MAX)) as process:
                sampled = asyncio.run(_touch_all(placed, world, process, faults))
            notes.append(f"{ENGINE_NAMES[engine]}, {tenants:,} tenants: {sampled}")
    return Figure(
        done=f"every tenant touched {TOUCHES} times in random order, limit of {CONNECTIONS_MAX} "
        "connections",
        found="; ".join(notes),
        faults=faults,
    )


@contextmanager
def _in_memory(stage: Stage) -> Iterator[Stage]:
    """Yield a stage with its files in memory, if there is room: thousands are created faster."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        yield stage
        return
    with tempfile.TemporaryDirectory(prefix="tenantry-prove-", dir=MEMORY) as folder:
        yield replace(stage, folder=Path(folder))


async def _touch_all(stage: Stage, world: World, process: Process, faults: list[str]) -> str:
    order = [tenant for tenant in world.tenants for _ in range(TOUCHES)]
    stage.chance.shuffle(order)
    order = [*world.tenants, *order]  # the caches are as full as they get before the sampling
    lines = asyncio.Queue[Line]()
    for _ in range(16):
        lines.put_nowait(Line(process.port))

    async def touch(tenant: Tenant) -> None:
        line = await lines.get()
        answer = await line.get(PROFILE, headers=signed_in(tenant))
        lines.put_nowait(line)
        if not answer.ok:
            faults.append(str(answer))

    work = asyncio.create_task(each(order, touch, at_once=16))
    is_postgres = sqlite_path(world.tenants[0].url) is None
    memory, files, connections = [], 0, 0
    while not work.done():
        await asyncio.sleep(SAMPLE_SECONDS)
        memory.append(process.resident_mib())
        files = max(files, _open_files(process.pid))
        if is_postgres:
            connections = max(connections, await asyncio.to_thread(_connections, stage))
    await work
    while not lines.empty():
        lines.get_nowait().close()
    return _judge(process, memory, files, connections if is_postgres else None, faults)


def _judge(
    process: Process,
    memory: list[float],
    files: int,
    connections: int | None,
    faults: list[str],
) -> str:
    half = memory[len(memory) // 2 :]
    quarter = max(1, len(half) // 2)
    grown = statistics.median(half[quarter:] or half) - statistics.median(half[:quarter])
    if grown > GROWN_MIB_MAX:
        faults.append(f"memory grew by {grown:.1f} MiB over the last half")
    if connections is not None and connections > CONNECTIONS_MAX:
        faults.append(f"{connections} connections to tenants")
    limit = _files_limit(process.pid)
    if files > OF_FILES * limit:
        faults.append(f"{files} of {limit} files")
    # An open SQLite file has a log file; the index of the log is one more.
    if connections is None and files > 3 * CONNECTIONS_MAX + 60:
        faults.append(f"{files} files of {CONNECTIONS_MAX} databases")
    seen = "" if connections is None else f"{connections} connections, "
    return f"{seen}{files} of {limit:,} files, memory {grown:+.1f} MiB over the last half"


def _connections(stage: Stage) -> int:
    with psycopg.connect(stage.postgres.url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'tenantry\\_%'"
        ).fetchone()
    return int(row[0]) if row else 0


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _files_limit(pid: int) -> int:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    line = next(one for one in lines if one.startswith("Max open files"))
    return int(line.split()[3])


def p32(stage: Stage) -> Figure:
    """Fill the disk under a serving process, and free it again."""
    rounds = stage.size(10, 2)
    faults: list[str] = []
    with _small_disk(stage.folder / "disk") as disk:
        world = make_world(disk / "world", Size(4, 1))
        revisions = AlembicFolder(stage.folder / "revisions")
        # Without the mark, so that writes begin on a disk that is really full.
        settings = {"tenant_migrations": str(revisions.begin()), "free_space_mark": "0"}
        filler = _Filler(world, disk, revisions, stage.chance, faults)
        with stage.serving(world, **settings) as process:
            refused = asyncio.run(filler.run(process.port, rounds))
        for path in disk.rglob("*.db"):
            with closing(sqlite3.connect(path)) as file:
                if (found := file.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                    faults.append(f"{path.name}: {found}")
    if not refused:
        faults.append("nothing was refused, so the disk was not full")
    return Figure(
        done=f"a disk of {DISK_MIB} MiB filled {rounds} times during logins, profiles, posts and "
        "runs (SQLite; the disk of a PostgreSQL server is its own)",
        found=f"{refused} requests refused with 507, 503 or as failed tenants; every file whole, "
        f"everything acknowledged was kept, usable within {RECOVERED_SECONDS_MAX} s: "
        f"{len(faults)} faults",
        faults=faults,
    )


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or filesystem(folder) != "tmpfs":
        raise NotShown("a small file system can be mounted by root alone")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


class _Filler:
    """Fills the disk, uses the service, frees the disk, and checks the state."""

    def __init__(
        self,
        world: World,
        disk: Path,
        revisions: AlembicFolder,
        chance: random.Random,
        faults: list[str],
    ) -> None:
        self.world = world
        self.disk = disk
        self.revisions = revisions
        self.chance = chance
        self.faults = faults
        self.refused = 0
        self.names: dict[str, str] = {}

    async def run(self, port: int, rounds: int) -> int:
        async with Line(port) as line:
            for number in range(rounds):
                self.revisions.add(
                    f"r{number:03}_fill",
                    f"op.create_table('fill{number}', sa.Column('id', sa.Integer))\n"
                    f"op.execute('INSERT INTO fill{number} SELECT 1')",
                )
                self._fill()
                for attempt in range(4):
                    await self._use(line, number * 10 + attempt)
                (self.disk / "filler").unlink()
                await self._check(line)
        return self.refused

    def _fill(self) -> None:
        with (self.disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 65_536)
        size = (self.disk / "filler").stat().st_size
        # A few pages are left, so that some writes begin and do not end.
        os.truncate(self.disk / "filler", size - self.chance.choice([0, 0, 4_096, 16_384, 65_536]))

    async def _use(self, line: Line, number: int) -> None:
        for tenant in self.world.tenants:
            name = f"Renamed {number} " + "x" * 100
            body = {"fullName": name, "email": tenant.users[0].email}
            changed = await line.ask("PUT", PROFILE, body, headers=signed_in(tenant))
            if changed.ok:
                self.names[tenant.id] = name
            post = {"title": f"Post {number}", "content": "x" * 30_000, "tags": ["a"]}
            written = await line.post(POSTS, post, headers=signed_in(tenant))
            entered = await login(line, tenant, tenant.users[0].email, PASSWORD)
            for what, answer in (("profile", changed), ("post", written), ("login", entered)):
                if answer.status >= 500 and answer.status not in REFUSED:
                    self.faults.append(f"{what}: {answer}")
                self.refused += answer.status in REFUSED
        run = await line.post(MIGRATE_ALL, headers=as_admin(self.world))
        if run.ok:
            self.refused += run.data["failed"]
        elif run.status not in REFUSED:
            self.faults.append(f"migrate-all: {run}")

    async def _check(self, line: Line) -> None:
        began = time.monotonic()
        while True:
            run = await line.post(MIGRATE_ALL, headers=as_admin(self.world))
            if run.ok and run.data["failed"] == 0:
                break
            if time.monotonic() - began > RECOVERED_SECONDS_MAX:
                self.faults.append(f"not usable again: {run}")
                return
            await asyncio.sleep(0.2)
        for tenant in self.world.tenants:
            answer = await line.get(PROFILE, headers=signed_in(tenant))
            kept = self.names.get(tenant.id)
            if not answer.ok or (kept and answer.data["fullName"] != kept):
                self.faults.append(f"acknowledged as {kept!r}: {answer}")


PROMISES = (
    Promise(
        31,
        "Thousands of tenants do not exhaust connections, files or memory.",
        p31,
        "the limit of connections is another than was set",
        seconds_max=900,
    ),
    Promise(
        32,
        "A full disk is an answer, and does no damage.",
        p32,
        "a change that could not be written is acknowledged",
    ),
)
