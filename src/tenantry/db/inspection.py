"""Databases that Tenantry did not create: check that one can be adopted, read it, copy it.

Nothing here changes such a database, or adds files next to a SQLite file: the database is in
production, and may be rejected.
"""

import contextlib
import sqlite3
from pathlib import Path

import asyncpg

from tenantry.kit import private
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.stopping import Stop

# SQLite's online backup copies so many pages between two checks for a stop: 16 MiB.
PAGES_COPIED_AT_ONCE = 4_096

_FACTS = """
SELECT datistemplate OR datname IN (current_database(), 'postgres') AS is_reserved,
    pg_encoding_to_char(encoding) AS encoding,
    pg_has_role(datdba, 'USAGE') AS is_owned
FROM pg_database
WHERE datname::text = $1  -- as `name`, $1 would be cut to 63 bytes and match another database
"""

# The header of a file in WAL mode.
# Source: https://www.sqlite.org/fileformat2.html#the_database_header
_WAL_FORMAT_AT, _WAL_FORMAT = 18, b"\x02\x02"


class DatabaseMissing(Invalid):
    """There is no such database on this server."""


class DatabaseReserved(Invalid):
    """This database is reserved: it is a template, or the maintenance database."""


class NotUtf8(Invalid):
    """The database must be encoded in UTF-8."""


class NotOwner(Conflict):
    """Tenantry's role must own the database, to migrate and delete it."""


class DatabaseDamaged(Conflict):
    """The database is damaged, as PRAGMA integrity_check shows: repair it, or use a backup."""


class SourceChanged(Conflict):
    """The database was written to during the copy: stop the programs that use it, and retry."""


async def check_listed(maintenance: "asyncpg.Connection[asyncpg.Record]", database: str) -> None:
    """Check the properties of a database in the server's list, without connecting to it.

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
    """Open a SQLite file read-only, without adding files next to it."""
    # In WAL mode, a reader creates missing -wal and -shm files and cannot remove them; they
    # belong to the reader, so the owner of the database may be unable to write to them. If
    # there is no -wal file, no process has the database open, and no lock is needed.
    unlocked = "&immutable=1" if _is_unused_wal(path) else ""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{unlocked}", uri=True, isolation_level=None
    )


def copy_sqlite(source: Path, target: Path, stop: Stop) -> None:
    """Copy a snapshot of *source*, which is not changed, to the new file *target*.

    Raises:
        SourceChanged: Another process wrote to *source* during the copy, which is no snapshot.
        Stopped: *stop* was set.
        Exception: Any error of the driver.
    """
    private.make_folder(target.parent)
    target.touch(mode=0o600, exist_ok=False)
    is_unused, before = _is_unused_wal(source), source.stat()
    with (
        contextlib.closing(open_to_read(source)) as read,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as written,
    ):
        back_up(read, written, stop)
    after = source.stat()
    is_same = (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    if is_unused and not (is_same and _is_unused_wal(source)):
        raise SourceChanged


def back_up(read: sqlite3.Connection, written: sqlite3.Connection, stop: Stop) -> None:
    """Copy a snapshot of an open database to another one."""
    # Without a read transaction, a write between two steps would restart the backup.
    read.execute("BEGIN")
    read.execute("SELECT count(*) FROM sqlite_master").fetchone()
    read.backup(written, pages=PAGES_COPIED_AT_ONCE, progress=stop.check)


def _is_unused_wal(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(_WAL_FORMAT_AT)
        is_wal = file.read(len(_WAL_FORMAT)) == _WAL_FORMAT
    return is_wal and not Path(f"{path}-wal").exists()
