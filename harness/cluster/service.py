"""The processes of the service: API processes and workers, replaced and killed one by one."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from harness.cluster.programs import NotReached, Program, start, wait_until
from harness.processes import SOURCE
from testkit.programs import free_port

START_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 60
# From the last new request to SIGTERM.
LEAVE_SECONDS = 0.3
OK = 200
WORKING = "Tenantry works on migration runs"


@dataclass(frozen=True)
class Process:
    """A process of the service.

    Attributes:
        program: What runs.
        url: Where it serves the API; None for a worker.
    """

    program: Program
    url: str | None


class Service:
    """The processes of one release.

    Args:
        folder: For their files; it is created.
        environment: Their settings.
        api_processes: How many serve the API.
        workers: How many work on migration runs only.

    Attributes:
        processes: All of them. A process that is replaced keeps its place.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], api_processes: int, workers: int
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._environment = {**environment, "PYTHONPATH": str(SOURCE)}
        self._numbers = itertools.count(1)
        self._counts = (api_processes, workers)
        self._leaving: list[Process] = []
        self.processes: list[Process] = []

    def start(self) -> None:
        """Start all processes, and wait until the API answers."""
        api_processes, workers = self._counts
        self.processes = [self._start(is_api=True) for _ in range(api_processes)]
        self.processes += [self._start(is_api=False) for _ in range(workers)]
        for one in self.processes:
            self._await_ready(one)

    @property
    def urls(self) -> list[str]:
        """The URLs of the API processes that run, as a load balancer knows them."""
        return [
            one.url
            for one in self.processes
            if one.url and one.program.is_running and one not in self._leaving
        ]

    def kill(self, process: Process) -> None:
        """Kill a process."""
        self._leaving.append(process)
        process.program.process.kill()
        process.program.process.wait()

    def replace(self, process: Process) -> None:
        """Start a new process in the place of one that has ended."""
        begun = self._start(is_api=process.url is not None)
        self._await_ready(begun)
        self.processes[self.processes.index(process)] = begun

    def upgrade(self, process: Process, environment: Mapping[str, str]) -> None:
        """Take a process out of service, end it, and start one with other settings.

        Raises:
            NotReached: It has not ended as it should.
        """
        self._environment |= environment
        self._leaving.append(process)
        time.sleep(LEAVE_SECONDS)
        process.program.end()
        if process.program.process.returncode:
            raise NotReached(f"a process did not end well: {process.program.said}")
        self.replace(process)

    def run(self, *arguments: str) -> tuple[int | None, str]:
        """Run a command of Tenantry; return its exit status, None after a minute, and its output.

        One that does not end is killed.
        """
        folder = self._folder / f"command{next(self._numbers)}"
        command: list[str | Path] = [sys.executable, "-m", "tenantry", *arguments]
        program = start(folder, command, environment=self._environment)
        try:
            return program.process.wait(COMMAND_SECONDS_MAX), program.said
        except subprocess.TimeoutExpired:
            program.process.kill()
            program.process.wait()
            return None, program.said

    def first(self, *, is_api: bool) -> Process:
        """Return an API process, or a worker."""
        return next(one for one in self.processes if (one.url is not None) is is_api)

    def check(self) -> list[str]:
        """Return the processes that have ended by themselves, with the end of their output."""
        return [
            f"a process has ended with {one.program.process.returncode}: {one.program.said}"
            for one in self.processes
            if not one.program.is_running
        ]

    def _start(self, *, is_api: bool) -> Process:
        folder = self._folder / f"process{next(self._numbers)}"
        command: list[str | Path] = [sys.executable, "-m", "tenantry"]
        if not is_api:
            return Process(start(folder, [*command, "worker"], environment=self._environment), None)
        port = free_port()
        program = start(
            folder, [*command, "serve", "--port", str(port)], environment=self._environment
        )
        return Process(program, f"http://127.0.0.1:{port}")

    def _await_ready(self, process: Process) -> None:
        url = process.url
        is_ready: Callable[[], bool] = (
            (lambda: _answers(url)) if url else (lambda: WORKING in process.program.said)
        )
        wait_until(is_ready, START_SECONDS_MAX, "a process does not start", process.program)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2, verify=False).status_code == OK  # noqa: S501
    except httpx.TransportError:
        return False
