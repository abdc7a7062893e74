"""The machine: its cores, and what is said of it beside the figures."""

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("uvicorn", "uvloop", "httptools", "asyncpg", "fastapi", "sqlalchemy")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
URGENT = "-15"
# Nothing there survives a power failure, so a durable commit costs nothing.
VOLATILE = {"tmpfs", "ramfs"}


class TooFewCores(Exception):
    """The server and the load need a core each."""


@dataclass(frozen=True)
class Cores:
    """Who runs where.

    Attributes:
        server: The one core of whatever is measured.
        load: Those of the load, of PostgreSQL and of this process.
    """

    server: int
    load: frozenset[int]


def share_cores() -> Cores:
    """Assign the cores, and move this process to those of the load.

    Raises:
        TooFewCores: There is only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise TooFewCores("The server and the load need a core each, and there is only one.")
    shared = Cores(cores[-1], frozenset(cores[:-1]))
    os.sched_setaffinity(0, shared.load)
    return shared


def be_urgent() -> None:
    """Go before the other processes of the machine; root may.

    Between sessions Linux compares those (sched(7), autogroup), and within one the processes:
    so the niced hashing threads stay behind the rest of ours.
    """
    os.setsid()
    Path("/proc/self/autogroup").write_text(URGENT)


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Run this process on *cores*, so that its child processes stay there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def core_seconds(core: int) -> float:
    """Return how long *core* has been busy with processes, since the machine was started."""
    lines = Path("/proc/stat").read_text().splitlines()
    fields = next(line.split() for line in lines if line.startswith(f"cpu{core} "))
    user, nice, system = fields[1:4]
    return (int(user) + int(nice) + int(system)) / TICKS_PER_SECOND


def filesystem(folder: Path) -> str:
    """Return the kind of the file system that holds *folder*."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    holding = [
        (mount[1], mount[2]) for mount in mounts if folder.resolve().is_relative_to(mount[1])
    ]
    return max(holding, key=lambda mount: len(mount[0]))[1]


def describe(folder: Path, packages: Sequence[str] = PACKAGES) -> list[str]:
    """Return what one has to know of this machine to read the figures.

    Args:
        folder: Where the databases are.
        packages: The ones with relevant versions.
    """
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    kind = filesystem(folder)
    durable = "; NOTHING THERE IS DURABLE" if kind in VOLATILE else ""
    return [
        f"{processor}, {os.cpu_count()} cores, Linux {platform.release()}",
        f"{platform.python_implementation()} {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in packages),
        f"databases on {kind}{durable}; load average before: {os.getloadavg()[0]:.2f}",
    ]
