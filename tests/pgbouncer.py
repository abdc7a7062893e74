"""PgBouncer in front of a server, for the tests."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

# The mode of the pooler in front of the tests' server; without it, there is none.
MODE_VARIABLE = "TENANTRY_TEST_POOLER"
PROGRAM_VARIABLE = "TENANTRY_TEST_PGBOUNCER"
# Where Debian puts programs of administrators.
PATH = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"
START_SECONDS_MAX = 20.0
# The first version that keeps prepared statements in transaction mode.
KEEPS_STATEMENTS = (1, 21)
POOL_SIZES = {"session": 20, "transaction": 1}


class PgBouncerMissing(Exception):
    """There is no PgBouncer to test with."""


@dataclass(frozen=True)
class PgBouncer:
    """A pooler that runs."""

    url: str

    def through(self, url: str) -> str:
        """Return *url*, of a database on the server behind, through the pooler."""
        return urlunsplit(urlsplit(self.url)._replace(path=urlsplit(url).path))


def program() -> str:
    """Return the path of the program.

    Raises:
        PgBouncerMissing: There is none.
    """
    found = os.environ.get(PROGRAM_VARIABLE) or shutil.which("pgbouncer", path=PATH)  # noqa: TID251
    if found is None:
        raise PgBouncerMissing("Needs PgBouncer: make test-pooler installs it.")
    return found


def version() -> tuple[int, ...]:
    """Return the version of the program."""
    output = subprocess.run([program(), "--version"], capture_output=True, check=True, text=True)
    found = re.search(r"PgBouncer (\d+)\.(\d+)", output.stdout)
    assert found, output.stdout
    return tuple(map(int, found.groups()))


@contextmanager
def pgbouncer(server_url: str, mode: str, **options: object) -> Iterator[PgBouncer]:
    """Yield PgBouncer in front of the server at *server_url*.

    Args:
        server_url: The URL of a superuser's database.
        mode: ``session``, ``transaction`` or ``statement``.
        options: Other settings of the section ``pgbouncer``.
    """
    behind = urlsplit(server_url)
    folder = Path(tempfile.mkdtemp(prefix="tenantry-pgbouncer-"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings: dict[str, Any] = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": POOL_SIZES.get(mode, 1),
        "max_client_conn": 1000,
        "server_idle_timeout": 2,
        "server_login_retry": 0.1,
        **({"max_prepared_statements": 200} if version() >= KEEPS_STATEMENTS else {}),
        # It refuses to run as root.
        "user": "nobody" if os.geteuid() == 0 else None,
        **options,
    }
    lines = [
        "[databases]",
        f"* = host={behind.hostname} port={behind.port} user={behind.username}",
        "[pgbouncer]",
        *(f"{name} = {value}" for name, value in settings.items() if value is not None),
    ]
    try:
        with _running("\n".join(lines) + "\n", folder, port):
            yield _at(behind, port)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def configured(sample: str, server_url: str, folder: Path) -> Iterator[PgBouncer]:
    """Yield PgBouncer with the file *sample*; only places, and how clients log in, are changed."""
    behind = urlsplit(server_url)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    changed = {
        r"\* = .*": f"* = host={behind.hostname} port={behind.port} user={behind.username}",
        r"listen_port = .*": f"listen_port = {port}",
        r"auth_type = .*": "auth_type = any",
        r"auth_file = .*": "user = nobody" if os.geteuid() == 0 else "",
    }
    for pattern, line in changed.items():
        sample, count = re.subn(f"(?m)^{pattern}$", line, sample)
        assert count == 1, pattern
    with _running(sample, folder, port):
        yield _at(behind, port)


def _at(behind: SplitResult, port: int) -> PgBouncer:
    return PgBouncer(urlunsplit(behind._replace(netloc=f"{behind.username}@127.0.0.1:{port}")))


@contextmanager
def _running(text: str, folder: Path, port: int) -> Iterator[None]:
    configuration = folder / "pgbouncer.ini"
    configuration.write_text(text)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program(), "-q", configuration], stdin=subprocess.DEVNULL, stderr=output
        )
    try:
        _wait_for(port, process, log)
        yield
    finally:
        process.terminate()
        process.wait(START_SECONDS_MAX)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + START_SECONDS_MAX
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < ends, log.read_text()
        time.sleep(0.05)
