"""Programs that are forked from a process which has imported all that they need.

For tests that are not about the start or the end of a program: the start of ``tenantry`` takes half
a second of a processor, and a program that would hang at its end does not hang here.
`testkit.programs` starts and ends it as its users do.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

import msgspec

from testkit.forking import Request
from testkit.programs import START_SECONDS_MAX, Program, environment_of, outputs_in

ROOT = Path(__file__).parents[1]
NUMBER_BYTES_MAX = 32


class Process:
    """A program that was forked, with what is used here of `subprocess.Popen`.

    Attributes:
        pid: Its id.
        returncode: Its exit status; negative if a signal has ended it, and None while it runs.
    """

    def __init__(self, numbers: socket.socket) -> None:
        self._numbers = numbers
        self.pid = self._number(START_SECONDS_MAX)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for *timeout* seconds, and return the exit status.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """
        if self.returncode is None:
            try:
                self.returncode = self._number(timeout)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._numbers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _number(self, seconds: float | None) -> int:
        self._numbers.settimeout(seconds)
        return int(self._numbers.recv(NUMBER_BYTES_MAX))


def start(
    module: str,
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
) -> Process:
    """Start ``python -m module`` with *arguments* in *folder*, on its three standard *streams*."""
    request = Request(module, list(arguments), dict(environment), str(folder))
    numbers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handles = [one.fileno() for one in (*streams, theirs)]
    with theirs:
        socket.send_fds(_forking(), [msgspec.json.encode(request)], handles)
    return Process(numbers)


@contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[Program]:
    """Do as `testkit.programs.running`."""
    with outputs_in(folder) as (paths, stdout, stderr), Path(os.devnull).open("rb") as stdin:
        streams, variables = (stdin, stdout, stderr), environment_of(**environment)
        process = start(
            "tenantry", *arguments, folder=folder, environment=variables, streams=streams
        )
    try:
        yield Program(process, *paths)
    finally:
        process.kill()
        process.wait()


def run(
    folder: Path, *arguments: str, stdin: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Do as `testkit.programs.run`."""
    variables = environment_of(**environment)
    return run_module("tenantry", *arguments, folder=folder, environment=variables, stdin=stdin)


def run_module(
    module: str,
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    stdin: str = "",
) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m module`` with *arguments* in *folder* to its end."""
    new = tempfile.TemporaryFile
    with new() as given, new() as stdout, new() as stderr:
        given.write(stdin.encode())
        given.seek(0)
        streams = (given, stdout, stderr)
        process = start(module, *arguments, folder=folder, environment=environment, streams=streams)
        try:
            status = process.wait(START_SECONDS_MAX)
        finally:
            process.kill()
        said = []
        for one in (stdout, stderr):
            one.seek(0)
            said.append(one.read().decode())
    return subprocess.CompletedProcess([module, *arguments], status, *said)


@cache
def _forking() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "testkit.forking", str(theirs.fileno())],
            cwd=ROOT,
            env=environment_of(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
