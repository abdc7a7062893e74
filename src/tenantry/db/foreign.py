"""Databases that nobody here has made: look at one, copy one, take back what was added to one.

A look changes nothing, not even beside a SQLite file: the database is somebody's production,
and may well be refused.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from uuid import UUID

import asyncpg

from tenantry.db import versions
from tenantry.db.postgres import CLOSE_SECONDS_MAX
from tenantry.db.scripts import BOOTSTRAP_LOCK, BOOTSTRAP_WAIT_MS
from tenantry.kit.errors import Conflict, Invalid

PREFIX = "tenantry_"
CLASHES_SHOWN_MAX = 10
PAGES_COPIED_AT_ONCE = 4_096

_FACTS = """
SELECT datistemplate OR datname IN (current_database(), 'postgres') AS is_reserved,
    pg_encoding_to_char(encoding) AS encoding,
    pg_has_role(datdba, 'USAGE') AS is_owned
FROM pg_database
WHERE datname::text = $1  -- a longer `name` would be cut to 63 bytes, and mean another one
"""
_MAY_CREATE = "SELECT COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE)"
_CLASHES = f"""
SELECT relname FROM pg_class WHERE starts_with(relname, '{PREFIX}') ORDER BY relname
"""  # noqa: S608 - a constant
# The underscore stands for any character; SQLite's names have no case.
_SQLITE_CLASHES = """
SELECT lower(name) FROM sqlite_master WHERE name LIKE 'tenantry\\_%' ESCAPE '\\' ORDER BY name
"""
_ADDED = f"""
SELECT format('%I.%I', nspname, relname)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p') AND starts_with(relname, '{PREFIX}') AND relnamespace =
    (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{versions.log.name}'))
"""  # noqa: S608 - constants

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


class MayNotCreate(Conflict):
    """Tenantry's role may not create tables in the first schema of its search path."""


class AlreadyTenantry(Conflict):
    """This is a database of Tenantry's already."""


class NamesTaken(Conflict):
    """Names in the database begin as Tenantry's own do."""


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


async def check_postgres(url: str, *, version_table: str, timeout_seconds: float) -> list[str]:
    """Look into the database at *url*, and return the rows of its own version table.

    Raises:
        AlreadyTenantry, NamesTaken, MayNotCreate: It cannot be adopted.
        Exception: Whatever the driver raises.
    """
    raw = await asyncpg.connect(
        url,
        timeout=timeout_seconds,
        command_timeout=timeout_seconds,
        server_settings={
            "application_name": "tenantry-adopt",
            "default_transaction_read_only": "on",
        },
    )
    try:
        _check_names([str(row[0]) for row in await raw.fetch(_CLASHES)])
        if not await raw.fetchval(_MAY_CREATE):
            raise MayNotCreate
        try:
            rows = await raw.fetch(versions.read_user_version(version_table).postgresql.sql)
        except asyncpg.UndefinedTableError:
            return []
        return [str(row[0]) for row in rows]
    finally:
        await raw.close(timeout=CLOSE_SECONDS_MAX)


def check_sqlite(path: Path, *, version_table: str) -> list[str]:
    """Look into the file at *path*, and return the rows of its own version table.

    Raises:
        DatabaseMissing, AlreadyTenantry, NamesTaken: It cannot be adopted.
        Exception: Whatever the driver raises.
    """
    if not path.is_file():
        raise DatabaseMissing(f"There is no file {path}.")
    with contextlib.closing(_open_to_read(path)) as raw:
        _check_names([str(row[0]) for row in raw.execute(_SQLITE_CLASHES)])
        try:
            rows = raw.execute(versions.read_user_version(version_table).sqlite.sql).fetchall()
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                return []
            raise
        return [str(row[0]) for row in rows]


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

    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600, exist_ok=False)
    is_unused, before = _is_unused_wal(source), source.stat()
    with (
        contextlib.closing(_open_to_read(source)) as read,
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


async def remove_added(url: str, run_id: UUID, *, timeout_seconds: float) -> None:
    """Drop our tables from the database at *url*, if *run_id* has made them.

    A database that is gone has none.

    Raises:
        Exception: Whatever the driver raises.
    """
    try:
        raw = await asyncpg.connect(
            url, timeout=timeout_seconds, server_settings={"application_name": "tenantry-adopt"}
        )
    except asyncpg.InvalidCatalogNameError:
        return
    try:
        async with raw.transaction():
            await raw.execute(f"SET LOCAL lock_timeout = {BOOTSTRAP_WAIT_MS}")
            # What a killed process has sent may still be at work on the server: it has the lock.
            await raw.execute(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
            if await _was_made_by(raw, run_id):
                added = ", ".join(str(row[0]) for row in await raw.fetch(_ADDED))
                await raw.execute(f"DROP TABLE {added}")
    finally:
        await raw.close(timeout=CLOSE_SECONDS_MAX)


def _check_names(clashes: Sequence[str]) -> None:
    if versions.version.name in clashes:
        raise AlreadyTenantry
    if clashes:
        shown = ", ".join(clashes[:CLASHES_SHOWN_MAX])
        raise NamesTaken(f"Names in the database begin as Tenantry's own do: {shown}.")


def _open_to_read(path: Path) -> sqlite3.Connection:
    # A reader of a file in WAL mode makes -wal and -shm when they are not there, cannot take
    # them away again, and then whoever owns the file may not write to them. While they are
    # not there nobody has the file open, so that it needs no lock.
    unlocked = "&immutable=1" if _is_unused_wal(path) else ""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{unlocked}", uri=True, isolation_level=None
    )


def _is_unused_wal(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(_WAL_FORMAT_AT)
        is_wal = file.read(len(_WAL_FORMAT)) == _WAL_FORMAT
    return is_wal and not Path(f"{path}-wal").exists()


async def _was_made_by(raw: "asyncpg.Connection[asyncpg.Record]", run_id: UUID) -> bool:
    try:
        async with raw.transaction():
            applied = versions.READ_APPLIED.postgresql
            return bool(await raw.fetch(applied.sql, *applied.arguments({"run": run_id})))
    except asyncpg.UndefinedTableError:
        return False
