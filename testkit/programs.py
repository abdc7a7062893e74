"""``tenantry`` as a process: starting, reading its output, ending."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import httpx

from tenantry.settings import Settings

# Of a busy machine: an idle one takes a second.
START_SECONDS_MAX = 100
END_SECONDS_MAX = 60


class Process(Protocol):
    """What is used here of `subprocess.Popen`."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True)
class Program:
    """A program that runs."""

    process: Process
    _stdout: Path
    _stderr: Path

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def wait_for(self, pattern: str) -> "re.Match[str]":
        """Return the match of *pattern* in the output, as soon as there is one."""
        ends = time.monotonic() + START_SECONDS_MAX
        while (found := re.search(pattern, self.stdout, re.MULTILINE)) is None:
            assert self.process.poll() is None, f"It ended: {self.stdout}\n{self.stderr}"
            assert time.monotonic() < ends, f"No {pattern!r}: {self.stdout}\n{self.stderr}"
            time.sleep(0.05)
        return found

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Return the exit status after the signal *by*."""
        self.process.send_signal(by)
        return self.process.wait(END_SECONDS_MAX)


@contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[Program]:
    """Yield ``tenantry`` with *arguments*, started in *folder*, and kill it after the block."""
    with outputs_in(folder) as (paths, stdout, stderr):
        process = subprocess.Popen(
            [sys.executable, "-m", "tenantry", *arguments],
            cwd=folder,
            env=environment_of(**environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        yield Program(process, *paths)
    finally:
        process.kill()
        process.wait()


@contextmanager
def outputs_in(folder: Path) -> Iterator[tuple[list[Path], IO[bytes], IO[bytes]]]:
    """Yield two new files for what a program writes: their paths, and both of them open."""
    paths = [folder / f"{time.monotonic_ns()}.{name}" for name in ("stdout", "stderr")]
    with paths[0].open("wb") as stdout, paths[1].open("wb") as stderr:
        yield paths, stdout, stderr


def run(
    folder: Path, *arguments: str, stdin: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``tenantry`` with *arguments* in *folder* to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tenantry", *arguments],
        cwd=folder,
        env=environment_of(**environment),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=START_SECONDS_MAX,
        check=False,
    )


def environment_of(**environment: str) -> Mapping[str, str]:
    """Return our environment without its settings of Tenantry, and with others."""
    ours = {name: value for name, value in os.environ.items() if not _is_setting(name)}  # noqa: TID251
    return {**ours, **environment}


def variables(settings: Settings) -> dict[str, str]:
    """Return the variables that make *settings*."""
    values = {
        "TENANTRY_DATA_DIR": str(settings.data_dir),
        "TENANTRY_CATALOG_URL": settings.catalog_url.get_secret_value(),
        "TENANTRY_TENANT_SERVER_URL": settings.tenant_server_url.get_secret_value(),
        "TENANTRY_TENANT_SERVERS": _servers(settings),
        "TENANTRY_SECRET_KEY": settings.secret_key.get_secret_value(),
        "TENANTRY_PG_TOOLS": str(settings.pg_tools or ""),
    }
    return {name: value for name, value in values.items() if value}


def _servers(settings: Settings) -> str:
    servers = settings.tenant_servers
    named = {
        name: {"url": server.address, "admin_url": server.admin_address}
        for name, server in servers.items()
    }
    return json.dumps(named) if named else ""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez", timeout=5).is_success
    except httpx.TransportError:
        return False


def only_line(text: str) -> str:
    """Return *text*, which must be one readable line of the program's own."""
    assert text.startswith("tenantry: error: "), text
    assert text.endswith("\n"), text
    assert text.count("\n") == 1, text
    return text


def _is_setting(name: str) -> bool:
    return name.startswith("TENANTRY_") and not name.startswith("TENANTRY_TEST_")
