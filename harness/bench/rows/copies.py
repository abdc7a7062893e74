"""A backup and its restore, against the bare programs: pg_dump and pg_restore, or a copy of a file.

Everything is measured as an operator runs it, with the start of each program.
"""

import contextlib
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from harness import postgres
from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure
from harness.processes import environment, peak_mib
from harness.world import Size, World
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.postgres import create_database, drop_database, find_binaries

ROUNDS = 3
SAMPLE_SECONDS = 0.02
# Rows of 928 random hexadecimal digits, and a number.
DIGESTS, ROWS_PER_MB = 29, 1_000
RATIO = Bound(1.3, at_least=False)
MEMORY_MIB = Bound(200, at_least=False, unit=" MiB")
CREATE = "CREATE TABLE note (id integer PRIMARY KEY, body text NOT NULL)"
FILL_POSTGRESQL = """
INSERT INTO note SELECT i,
    (SELECT string_agg(md5(random()::text || i || j), '') FROM generate_series(1, {digests}) AS j)
FROM generate_series(1, {rows}) AS i
"""
FILL_SQLITE = """
WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {rows})
INSERT INTO note SELECT i, lower(hex(randomblob({digests} * 16))) FROM number
"""


class CommandFailed(Exception):
    """A program that is measured has failed; the message has what it wrote."""


@dataclass
class _Times:
    """The seconds of each round, and the most memory that one of our processes has used."""

    bare: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    peak_mib: float = 0.0


@dataclass(frozen=True)
class _Bare:
    """What the bare programs do."""

    save: Callable[[], None]
    load: Callable[[], None]
    clear: Callable[[], None]


def on_postgresql(bench: Bench) -> list[Figure]:
    """Measure with a database on a server."""
    world = bench.new_world("postgresql-copies", Size(1))
    with postgres.careless(bench.postgres_url):
        _fill(world.tenants[0].url, FILL_POSTGRESQL, bench.plan.copied_mb)
        raw_sql.run(world.tenants[0].url, "CHECKPOINT")
    programs, dump = find_binaries(), bench.folder / "bare.dump"
    server, name = bench.postgres_url, "bare_copy"
    source = world.tenants[0].url

    def save() -> None:
        options = ("--format=custom", "--compress=1", f"--file={dump}")
        _run([str(programs / "pg_dump"), *options, f"--dbname={source}"], {})

    def load() -> None:
        url = create_database(server, name)
        options = ("--single-transaction", "--exit-on-error", "--no-owner")
        _run([str(programs / "pg_restore"), *options, f"--dbname={url}", str(dump)], {})

    def clear() -> None:
        dump.unlink()
        drop_database(server, name)

    settings = {"TENANTRY_PG_TOOLS": str(programs)}
    bare = _Bare(save, load, clear)
    return _measure(bench, world, bare, "PostgreSQL / pg_dump, pg_restore", settings)


def on_sqlite(bench: Bench) -> list[Figure]:
    """Measure with a file."""
    world = bench.new_world("sqlite-copies", Size(1))
    path = sqlite_path(world.tenants[0].url)
    assert path is not None
    _fill(world.tenants[0].url, FILL_SQLITE, bench.plan.copied_mb)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saved, loaded = bench.folder / "bare.saved", bench.folder / "bare.loaded"

    def clear() -> None:
        saved.unlink()
        loaded.unlink()

    bare = _Bare(lambda: _copy(path, saved), lambda: _copy(saved, loaded), clear)
    return _measure(bench, world, bare, "SQLite / a copy of the file", {})


def _measure(
    bench: Bench, world: World, bare: _Bare, work: str, settings: Mapping[str, str]
) -> list[Figure]:
    folder = bench.folder / f"archives-{work.partition(' ')[0]}"
    variables = {**environment(), **world.environment, **settings}
    backup, restore = _Times(), _Times()
    tenant = world.tenants[0].id

    def ours(times: _Times, *arguments: str) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "tenantry", "backup", *arguments]
        times.peak_mib = max(times.peak_mib, _run(command, variables))
        times.ours.append(time.perf_counter() - began)

    for number in range(ROUNDS):
        backup.bare.append(_seconds(bare.save))
        ours(backup, "create", "--tenant", tenant, "--to", str(folder))
        restore.bare.append(_seconds(bare.load))
        (archive,) = folder.iterdir()
        ours(restore, "restore", str(archive), "--as", f"Copy {number}")
        bare.clear()
        archive.unlink()
    start = _Times()
    ours(start, "list", "--from", str(folder))
    size = f"{bench.plan.copied_mb} MB"
    memory = _memory(f"the same, {work.partition(' ')[0]}: peak resident memory", backup, restore)
    memory.notes.append(f"a list of no archives takes {start.ours[0]:.1f} s: the start")
    return [
        _ratio(f"backup of {size}, {work}", backup),
        _ratio(f"restore of {size}, {work}", restore),
        memory,
    ]


def _ratio(work: str, times: _Times) -> Figure:
    ours, bare = statistics.median(times.ours), statistics.median(times.bare)
    return Figure(
        work=work,
        value=ours / bare,
        shown=f"{ours / bare:.2f}",
        rate=f"{ours:.1f} s, bare {bare:.1f} s",
        bound=RATIO,
        notes=[f"ours {_shown(times.ours)}, bare {_shown(times.bare)}, in turn"],
    )


def _memory(work: str, *of: _Times) -> Figure:
    peak = max(times.peak_mib for times in of)
    return Figure(work=work, value=peak, shown=f"{peak:.0f} MiB", bound=MEMORY_MIB)


def _fill(url: str, statement: str, megabytes: int) -> None:
    sql = statement.format(rows=megabytes * ROWS_PER_MB, digests=DIGESTS)
    raw_sql.run(url, CREATE, sql)


def _run(command: Sequence[str], variables: Mapping[str, str]) -> float:
    """Run a program; return its peak of resident memory, without that of its children, in MiB."""
    peak = 0.0
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            env=variables or environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        ) as process,
    ):
        while process.poll() is None:
            with contextlib.suppress(OSError, StopIteration):  # it has just ended
                peak = max(peak, peak_mib(process.pid))
            time.sleep(SAMPLE_SECONDS)
        said.seek(0)
        if process.returncode:
            raise CommandFailed(f"{command}: {said.read().decode(errors='replace')}")
    return peak


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _shown(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.1f} to {max(seconds):.1f} s"
