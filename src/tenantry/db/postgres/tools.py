"""pg_dump and pg_restore: found, version checked, and run as child processes.

These functions block: call them in a thread. A password is passed in the environment of the child,
which only its own user can read, and never on the command line.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

from psycopg.conninfo import make_conninfo

from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.kit.stopping import Stop

DUMP, RESTORE = "pg_dump", "pg_restore"
VERSION_SECONDS_MAX = 10
# The first lines of a failed program: the later ones repeat them for other objects.
ERROR_BYTES_MAX = 4_096
_VERSION = re.compile(r"\) (\d+)")
# From this version on, pg_restore sets `transaction_timeout`, which no older server has.
# Source: _doSetFixedOutputState in PostgreSQL's src/bin/pg_dump/pg_backup_archiver.c
_NEEDS_EQUAL_SINCE = 17
# The command that a restore begins with is in the first entries, near the start of a dump. pg_dump
# writes it with an empty path.
_START_BYTES = 4_096
_SET_PATH = "SELECT pg_catalog.set_config('search_path', {}, false);\n"


class ToolMissing(Unavailable):
    """pg_dump and pg_restore are not installed: install them, or set TENANTRY_PG_TOOLS."""


class ToolTooOld(Unavailable):
    """pg_dump and pg_restore are older than the server: the message has both versions."""


class ToolTooNew(Unavailable):
    """pg_restore cannot restore into a server so old: the message has both versions."""


class SecretOnCommandLine(Unavailable):
    """The URL has `sslpassword`, which libpq takes from the command line only: use a key without.

    All users of a machine can read the command lines of its processes.
    """


class ToolFailed(Unavailable):
    """pg_dump or pg_restore has failed; the message has its first error."""


@dataclass(frozen=True)
class PostgresTools:
    """The programs of PostgreSQL.

    Attributes:
        folder: Where they are; None for those on the PATH.
    """

    folder: Path | None

    def find(self, name: str, *, server_major: int) -> Path:
        """Return the path of `DUMP` or `RESTORE`, if it can be used with the server.

        Raises:
            ToolMissing, ToolTooOld, ToolTooNew: It cannot.
        """
        found = shutil.which(name, path=None if self.folder is None else str(self.folder))
        if found is None:
            raise ToolMissing
        major = _major(found)
        if major < server_major:
            raise ToolTooOld(
                f"{name} has version {major}, and the server {server_major}: set TENANTRY_PG_TOOLS "
                "to the folder of a newer one."
            )
        if name == RESTORE and server_major < _NEEDS_EQUAL_SINCE <= major:
            raise ToolTooNew(
                f"{name} has version {major}, and cannot restore into the server {server_major}: "
                "set TENANTRY_PG_TOOLS to the folder of a version from that of the server to "
                f"{_NEEDS_EQUAL_SINCE - 1}."
            )
        return Path(found)


@contextmanager
def dumping(
    program: Path,
    url: str,
    *,
    snapshot: str,
    search_path: str,
    chunk_bytes: int,
    stop: Stop,
    is_whole: bool = False,
) -> Iterator[Iterator[bytes]]:
    """Run pg_dump in its custom format; yield its output, in chunks of at most *chunk_bytes*.

    Args:
        program: pg_dump.
        url: The URL of the database.
        snapshot: The snapshot that it exports, of `pg_export_snapshot`.
        search_path: The path of a restore: functions name others without their schemas.
        chunk_bytes: The size of a chunk.
        stop: Kills it.
        is_whole: Whether comments and privileges are dumped, too: for a move.

    Raises:
        ToolFailed: It has failed; raised at the end of the block.
    """
    arguments = ["--format=custom", "--compress=1", f"--snapshot={snapshot}"]
    # Owners and privileges are those of the server; the copy belongs to the role that restores it.
    arguments += ["--no-owner", "--no-publications", "--no-subscriptions", "--no-security-labels"]
    arguments += ["--lock-wait-timeout=60s"]
    arguments += [] if is_whole else ["--no-privileges", "--no-comments"]
    with _running(program, url, arguments, stop, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        with child.stdout as output:
            start = output.read(min(chunk_bytes, _START_BYTES))
            rest = iter(partial(output.read, chunk_bytes), b"")
            yield chain([_with_search_path(start, search_path)] if start else [], rest)


@contextmanager
def restoring(
    program: Path, url: str, *, stop: Stop, is_whole: bool = False
) -> Iterator[IO[bytes]]:
    """Run pg_restore in one transaction; yield its input.

    Raises:
        ToolFailed: It has failed; raised at the end of the block.
        BrokenPipeError: It has failed while its input was written.
    """
    arguments = ["--exit-on-error", "--single-transaction", "--no-owner"]
    arguments += [] if is_whole else ["--no-privileges"]
    with _running(program, url, arguments, stop, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        with child.stdin:
            yield child.stdin


@contextmanager
def _running(
    program: Path,
    url: str,
    arguments: list[str],
    stop: Stop,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> Iterator["subprocess.Popen[bytes]"]:
    public_url, password = _without_password(url)
    # The settings have secrets that it does not need.
    names = [name for name in os.environ if not name.startswith("TENANTRY_")]  # noqa: TID251
    environment = {name: os.environ[name] for name in names}  # noqa: TID251
    if password is not None:
        environment["PGPASSWORD"] = password
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(  # noqa: S603 - a program of the operator, with our arguments
            [program, *arguments, "--no-password", f"--dbname={public_url}"],
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            env=environment,
        )
        broken: BrokenPipeError | None = None
        with stop.killing(child):
            try:
                yield child
            except BrokenPipeError as error:  # it has failed: its exit status says so
                broken = error
        stop.check()
        if child.returncode or broken is not None:
            errors.seek(0)
            raise ToolFailed(_explain(program.name, errors.read(ERROR_BYTES_MAX))) from broken


def _with_search_path(start: bytes, search_path: str) -> bytes:
    """Return the start of a dump, with another path for its restore.

    Raises:
        ToolFailed: It has none.
    """
    quoted = search_path.replace("'", "''")
    old, new = (_dumped(_SET_PATH.format(f"'{path}'")) for path in ("", quoted))
    if start.count(old) != 1:
        raise ToolFailed("pg_dump has failed: its output has no search path.")
    return start.replace(old, new)


def _dumped(text: str) -> bytes:
    """Return *text* as pg_dump writes it: a sign, the length in four bytes, and the bytes.

    Source: WriteStr in PostgreSQL's src/bin/pg_dump/pg_backup_archiver.c; its `int` has four bytes.
    """
    data = text.encode()
    return b"\0" + len(data).to_bytes(4, "little") + data


def _explain(program: str, output: bytes) -> str:
    lines = output.decode(errors="replace").splitlines()
    chosen = next((line for line in lines if "error" in line.lower()), "no message")
    return f"{program} has failed: {chosen.removeprefix(f'{program}: ')}"


def _without_password(url: str) -> tuple[str, str | None]:
    """Return the connection string without the password, which a URL has in one of two places.

    Raises:
        SecretOnCommandLine: It has another secret.
    """
    parameters = postgres_urls.parse(url).for_libpq()
    if "sslpassword" in parameters:
        raise SecretOnCommandLine
    password = parameters.pop("password", None)
    return make_conninfo("", **parameters), password


def _major(program: str) -> int:
    done = subprocess.run(  # noqa: S603 - as above
        [program, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=VERSION_SECONDS_MAX,
        check=False,
    )
    found = _VERSION.search(done.stdout.decode(errors="replace"))
    if found is None:
        raise ToolMissing
    return int(found[1])
