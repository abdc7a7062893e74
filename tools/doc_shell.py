"""What the blocks of the documents run in: a shell, PostgreSQL servers, and a served command."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from testkit.postgres import PostgresMissing, find_binaries, own_server

BIN = Path(sys.executable).parent
BLOCK_SECONDS_MAX = 180
STAGE_SECONDS_MAX = 60


class BlockFailed(Exception):
    """A block does not do what its page says."""


class Shell:
    """A shell that keeps its variables and its folder between blocks.

    Attributes:
        folder: Where it was started.
        printed: All that was printed.
        ports: By those of the page, the ports that are used instead.
    """

    def __init__(self, folder: Path) -> None:
        """Start the shell in *folder*, which has the programs that readers have."""
        self.folder = folder
        self.printed = ""
        self.ports: dict[int, int] = {}
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name in ("tenantry", "alembic", "python"):
            (programs / name).symlink_to(BIN / name)
        with contextlib.suppress(PostgresMissing):
            for name in ("pg_dump", "pg_restore", "psql"):
                (programs / name).symlink_to(find_binaries() / name)
        path = f"{programs}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "COLUMNS": "120", "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.run('curl() { command curl -sS "$@"; }')  # a terminal shows no progress either

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path) -> Iterator["Shell"]:
        """Yield a shell, and end it after the block."""
        shell = cls(folder)
        try:
            yield shell
        finally:
            shell.close()

    def close(self) -> None:
        """End the shell, and what it has started."""
        assert self.process.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def run(self, script: str) -> tuple[int, str]:
        """Run a script; return its exit status and what it printed."""
        out, rc = self.folder / ".out", self.folder / ".rc"
        rc.unlink(missing_ok=True)
        assert self.process.stdin is not None
        self.process.stdin.write(
            f"{{\n:\n{script}\n}} >{out} 2>&1 </dev/null; echo $? >{rc}.new; mv {rc}.new {rc}\n"
        )
        self.process.stdin.flush()
        ends = time.monotonic() + BLOCK_SECONDS_MAX
        while not rc.exists():
            if time.monotonic() > ends or self.process.poll() is not None:
                raise BlockFailed(f"no end after {BLOCK_SECONDS_MAX} s: {script}")
            time.sleep(0.02)
        text = out.read_text(encoding="utf-8")
        self.printed += text
        return int(rc.read_text()), text

    def with_ports(self, text: str) -> str:
        """Return a text of the page with the ports of this run."""

        def used(found: re.Match[str]) -> str:
            port = int(found[1])
            return f"127.0.0.1:{self.ports.get(port, port)}"

        return re.sub(r"127\.0\.0\.1:(\d+)\b", used, text)


@contextlib.contextmanager
def started_servers(count: int) -> Iterator[dict[int, int]]:
    """Yield the ports of new PostgreSQL servers, which accept any password, by 5432, 5433, …."""
    with contextlib.ExitStack() as ended:
        yield {5432 + one: ended.enter_context(own_server()).port for one in range(count)}


@contextlib.contextmanager
def served(command: str, ready: str, shell: Shell) -> Iterator[None]:
    """Run a command until the end of the block; return when it has printed *ready*."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shell.run(f"export TENANTRY_PORT={port}")
    log = shell.folder / ".served"
    with log.open("wb") as out:
        environment = {"PATH": str(BIN), "HOME": str(shell.folder), "TENANTRY_PORT": str(port)}
        process = subprocess.Popen(
            command.split(),
            cwd=shell.folder,
            env=environment,
            stdout=out,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    ends = time.monotonic() + STAGE_SECONDS_MAX
    while ready not in (text := log.read_text(encoding="utf-8")):
        if time.monotonic() > ends or process.poll() is not None:
            process.kill()
            raise BlockFailed(f"{command} is not ready after {STAGE_SECONDS_MAX} s: {text}")
        time.sleep(0.05)
    shell.printed = text
    try:
        yield
    finally:
        process.terminate()
        process.wait()
