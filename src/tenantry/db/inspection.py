"""Databases that were made elsewhere: check that one can be adopted, open it to read, copy it.

Nothing here changes such a database, not even beside a SQLite file: it is in production, and
may well be refused.
"""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from threading import Event

import asyncpg

from tenantry.kit import private
from tenantry.kit.errors import Conflict, Invalid

PAGES_COPIED_AT_ONCE = 4_096

_FACTS = """
SELECT datistemplate OR datname IN (current_database(), 'postgres') AS is_reserved,
    pg_encoding_to_char(encoding) AS encoding,
    pg_has_role(datdba, 'USAGE') AS is_owned
FROM pg_database
WHERE datname::text = $1  -- a longer `name` would be cut to 63 bytes, and mean another one
"""

# Of a file in WAL mode. Source: https://www.sqlite.org/fileformat2.html#the_database_header
_WAL_FORMAT_AT, _WAL_FORMAT = 18, b"\x02\x02"


class DatabaseMissing(Invalid):
    """There is no such database on this server."""


class DatabaseReserved(Invalid):
    """This database belongs to the server itself: it is a template, or Tenantry's way in."""


class NotUtf8(Invalid):
    """The database must be encoded in UTF-8."""


class NotOwner(Conflict):
    """Tenantry's role must own the database, to migrate it and one day to delete it."""


class SourceChanged(Conflict):
    """The database was written to while it was copied: stop what uses it, and try again."""


async def check_listed(maintenance: "asyncpg.Connection[asyncpg.Record]", database: str) -> None:
    """Check what the server says of a database, without a connection to it.

    Raises:
        DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner: It cannot be adopted.
    """
    facts = await maintenance.fetchrow(_FACTS, database)
    if facts is None:
        raise DatabaseMissing
    if facts["is_reserved"]:
        raise DatabaseReserved
    if facts["encoding"] != "UTF8":
        raise NotUtf8(f"The database must be encoded in UTF-8, and is in {facts['encoding']}.")
    if not facts["is_owned"]:
        raise NotOwner


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a SQLite file and change nothing, not even beside it."""
    # A reader of a file in WAL mode makes -wal and -shm when they are not there, cannot take
    # them away again, and then whoever owns the file may not write to them. While they are
    # not there nobody has the file open, so that it needs no lock.
    unlocked = "&immutable=1" if _is_unused_wal(path) else ""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{unlocked}", uri=True, isolation_level=None
    )


async def copy_in_thread(source: Path, target: Path) -> None:
    """Do what `copy_sqlite` does, beside everything else."""
    stopped = Event()
    copying = asyncio.get_running_loop().run_in_executor(None, copy_sqlite, source, target, stopped)
    try:
        await asyncio.shield(copying)
    except asyncio.CancelledError:
        # A thread cannot be cancelled, and what it writes is about to be deleted.
        stopped.set()
        await asyncio.wait([copying])
        copying.exception()
        raise


def copy_sqlite(source: Path, target: Path, stopped: Event) -> None:
    """Make *target* a copy of *source* as it is at one instant.

    Args:
        source: It stays as it is.
        target: Must not be there.
        stopped: Set it, and the copying ends.

    Raises:
        SourceChanged: Something writes to *source* in a way that leaves no instant.
        Exception: Whatever the driver raises.
    """

    def check_stopped(*_: int) -> None:
        if stopped.is_set():
            raise TimeoutError

    private.make_folder(target.parent)
    target.touch(mode=0o600, exist_ok=False)
    is_unused, before = _is_unused_wal(source), source.stat()
    with (
        contextlib.closing(open_to_read(source)) as read,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as written,
    ):
        # Between two steps of a backup others may write, and it would begin again, for ever.
        read.execute("BEGIN")
        read.execute("SELECT count(*) FROM sqlite_master").fetchone()
        read.backup(written, pages=PAGES_COPIED_AT_ONCE, progress=check_stopped)
    after = source.stat()
    is_same = (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    if is_unused and not (is_same and _is_unused_wal(source)):
        raise SourceChanged


def _is_unused_wal(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(_WAL_FORMAT_AT)
        is_wal = file.read(len(_WAL_FORMAT)) == _WAL_FORMAT
    return is_wal and not Path(f"{path}-wal").exists()
