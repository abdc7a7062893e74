"""Processes that are measured: started on a separate core, sampled, ended."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import tenantry
from harness import wire
from harness.machine import TICKS_PER_SECOND, core_seconds, pinned

ROOT = Path(__file__).parents[1]
# What is measured is what this process itself has imported, wherever that is.
SOURCE = Path(tenantry.__file__).parents[1]
START_SECONDS_MAX = 60
END_SECONDS_MAX = 20


class NotStarted(Exception):
    """A server did not begin to answer; the message holds the end of what it wrote."""


@dataclass(frozen=True)
class Process:
    """A server that runs.

    Attributes:
        pid: Of its process.
        port: Where it listens.
        core: Where it runs; None is anywhere.
        written: Its standard error, with its access log.
    """

    pid: int
    port: int
    core: int | None
    written: Path

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads, in the kernel and outside."""
        # The second field is a name in parentheses, which may hold spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def core_seconds(self) -> float:
        """Return how long its core has been busy, with it or with others."""
        assert self.core is not None
        return core_seconds(self.core)

    def resident_mib(self) -> float:
        """Return its resident memory."""
        return _memory_mib(self.pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """Return the peak of the resident memory of a process since its program began.

    `ru_maxrss` is no substitute: it also counts the memory of the parent before `exec`.

    Raises:
        OSError, StopIteration: The process has ended.
    """
    return _memory_mib(pid, "VmHWM")


def _memory_mib(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


@contextmanager
def started(
    name: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    core: int | None,
    added: Mapping[str, str] | None = None,
    ready: str = "/",
    source: Path = SOURCE,
) -> Iterator[Process]:
    """Run ``python -m …`` on *core* until the block ends.

    Args:
        name: Of its log.
        arguments: The module and what follows it; ``{port}`` is replaced.
        folder: Where it runs, so that it reads no `.env`, and where its log is.
        core: Of all its threads; None is any.
        added: To the environment.
        ready: The request that is repeated until it is answered.
        source: The folder of the `tenantry` that it imports.

    Raises:
        NotStarted: It ended, or did not answer in time.
    """
    port = free_port()
    written = folder / f"{name}-{port}.log"
    values = environment(source) | dict(added or {})
    command = [sys.executable, "-m", *(one.format(port=port) for one in arguments)]
    with written.open("wb") as log, nullcontext() if core is None else pinned(frozenset({core})):
        process = subprocess.Popen(
            command, cwd=folder, env=values, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait(process, port, ready, written)
        yield Process(process.pid, port, core, written)
    finally:
        _end(process)
        written.unlink(missing_ok=True)


def environment(source: Path = SOURCE) -> dict[str, str]:
    """Return the environment of a child process, without the variables of this one."""
    return {
        "PATH": os.defpath,
        "HOME": tempfile.gettempdir(),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
    }


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", port: int, path: str, written: Path) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    request = wire.request("GET", path)
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            if wire.ask(port, request).status < 500:
                return
        except OSError:
            time.sleep(0.05)
    raise NotStarted(f"{process.args!r}:\n{written.read_text()[-4000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
