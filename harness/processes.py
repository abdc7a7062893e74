"""Processes that are measured: started on a separate core, sampled, ended."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import tenantry
from harness import wire
from harness.machine import TICKS_PER_SECOND, core_seconds, pinned
from harness.waiting import comes_true
from testkit.programs import free_port

ROOT = Path(__file__).parents[1]
# What is measured is what this process itself has imported, wherever that is.
SOURCE = Path(tenantry.__file__).parents[1]
START_SECONDS_MAX = 60
START_TRIES_MAX = 5
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
        written: All that it writes, with its access log.
    """

    pid: int
    port: int
    core: int | None
    written: Path

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """All that it has written."""
        return self.written.read_text(errors="replace")

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
    core: int | None = None,
    added: Mapping[str, str] | None = None,
    ready: str = "/",
    source: Path = SOURCE,
) -> Iterator[Process]:
    """Run ``python -m …`` until the block ends.

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
    values = environment(source) | dict(added or {})
    cores = None if core is None else frozenset({core})
    process = None
    for tried in range(1, START_TRIES_MAX + 1):
        port = free_port()
        written = folder / f"{name}-{port}.log"
        command = [sys.executable, "-m", *(one.format(port=port) for one in arguments)]
        with written.open("wb") as log, nullcontext() if cores is None else pinned(cores):
            process = subprocess.Popen(
                command, cwd=folder, env=values, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if _is_ready(process, port, ready):
            break
        _end(process)
        said = written.read_text(errors="replace")
        # Another process may have taken the port.
        if tried == START_TRIES_MAX or "is taken" not in said:
            raise NotStarted(f"{command!r}:\n{said[-4000:]}")
    assert process is not None
    try:
        yield Process(process.pid, port, core, written)
    finally:
        _end(process)
        written.unlink(missing_ok=True)


def serving(
    folder: Path,
    variables: Mapping[str, str],
    *,
    name: str = "serve",
    module: Sequence[str] = ("tenantry",),
    options: Sequence[str] = (),
    core: int | None = None,
    source: Path = SOURCE,
) -> AbstractContextManager[Process]:
    """Run ``tenantry serve`` as an operator does, until the block ends; see `started`.

    Args:
        folder: Of the process.
        variables: Of its environment.
        name: Of its log.
        module: What is run instead of ``tenantry``.
        options: Of the command, besides the port.
        core: Of all its threads; None is any.
        source: The folder of the package.
    """
    return started(
        name,
        [*module, "serve", "--port", "{port}", *options],
        folder=folder,
        core=core,
        added=variables,
        ready="/readyz",
        source=source,
    )


def environment(source: Path = SOURCE) -> dict[str, str]:
    """Return the environment of a child process, without the variables of this one."""
    return {
        "PATH": os.defpath,
        "HOME": tempfile.gettempdir(),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
    }


def _is_ready(process: "subprocess.Popen[bytes]", port: int, path: str) -> bool:
    request = wire.request("GET", path)

    def answers_or_ended() -> bool:
        with suppress(OSError):
            return wire.ask(port, request).status < 500
        return process.poll() is not None

    return comes_true(answers_or_ended, START_SECONDS_MAX) and process.poll() is None


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
