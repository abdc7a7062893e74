"""The CPU time of a migration. Other programs disturb it less than the time that passes."""

import asyncio
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg

from harness.machine import TICKS_PER_SECOND

# Of /proc/PID/stat behind the name (proc(5)), which may have spaces.
PARENT = 1
USED = slice(11, 15)  # by the process, and by its children that have ended


def meter(server_url: str | None = None) -> Callable[[], float]:
    """Return what returns the CPU seconds of this process, its ended children, and a server.

    Args:
        server_url: Of PostgreSQL on this machine.
    """
    server = None if server_url is None else _postmaster(server_url)

    def used() -> float:
        found = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own = sum(one.ru_utime + one.ru_stime for one in found)
        return own if server is None else own + sum(_used(server)) / TICKS_PER_SECOND

    return used


def _postmaster(server_url: str) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(server_url)
        try:
            backend = await connection.fetchval("SELECT pg_backend_pid()")
            return int(_stat(Path(f"/proc/{backend}"))[PARENT])
        finally:
            await connection.close()

    return asyncio.run(ask())


def _used(server: int) -> Iterator[int]:
    """Yield the ticks of a server and of each of its processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = _stat(folder)
        except OSError:  # it has ended: its parent has its time
            continue
        if server in (int(folder.name), int(fields[PARENT])):
            yield sum(map(int, fields[USED]))


def _stat(folder: Path) -> list[str]:
    return (folder / "stat").read_text().rpartition(")")[2].split()
