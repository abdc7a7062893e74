"""Write fences: a database rejects every write, whichever process sends it, until that is undone.

On PostgreSQL the fence is a setting of the database, and every session that is older than the
setting is ended. On SQLite it is a set of triggers, because a file has no settings. A fence is
durable: it holds after a kill of the process that has set it.
"""

import asyncio
import contextlib
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from tenantry.db.postgres.connections import UNAVAILABLE
from tenantry.db.postgres.connector import PostgresConnector, closing
from tenantry.db.servers import FENCE_SECONDS_MAX, quoted
from tenantry.db.sessions import DatabaseUnavailable, WritesRejected
from tenantry.db.sqlite import connections as sqlite
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Conflict, Unavailable

POLL_SECONDS = 0.05
# A session reads its settings a moment before it is listed, so the list must be empty twice.
EMPTY_LISTS = 2
_PREFIX = "tenantry_fence_"
IS_OF_FENCE = f"""
(type = 'trigger' AND name GLOB '{_PREFIX}[0-9]*'
    AND ltrim(substr(name, {len(_PREFIX) + 1}), '0123456789') IN ('_insert', '_update', '_delete'))
"""
"""Whether a row of ``sqlite_master`` is of a fence, in SQL.

Only the exact names: a tenant can have triggers of its own with the same prefix, and any character.
"""

_SET = "ALTER DATABASE {} SET default_transaction_read_only = on"
_RESET = "ALTER DATABASE {} RESET default_transaction_read_only"
# For a connection to the fenced database itself.
_WRITABLE = "SET default_transaction_read_only = off"
# A setting of a role has priority over that of the database.
_ROLES_WITH_OTHER_DEFAULT = """
SELECT count(*) FROM pg_db_role_setting, pg_catalog.unnest(setconfig) AS one
WHERE setrole <> 0 AND one <> 'default_transaction_read_only=on'
    AND pg_catalog.starts_with(one, 'default_transaction_read_only=')
    AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
_IS_FENCED = """
SELECT EXISTS (SELECT 1 FROM pg_db_role_setting WHERE setrole = 0
    AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND 'default_transaction_read_only=on' = ANY (setconfig))
"""
_NOW = "SELECT clock_timestamp()"
# The state of a session of a role that this one does not belong to is null: it is waited for.
# A prepared transaction has no session.
_END_IDLE = """
SELECT count(*) + (SELECT count(*) FROM pg_prepared_xacts WHERE database = $1), coalesce(sum(
    CASE WHEN state = 'idle' THEN pg_terminate_backend(pid)::int ELSE 0 END), 0)
FROM pg_stat_activity
WHERE datname = $1 AND backend_type = 'client backend' AND backend_start < $2
    AND pid <> pg_backend_pid()
"""
_SQLITE_TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name
"""
_SQLITE_TRIGGERS = f"SELECT name FROM sqlite_master WHERE {IS_OF_FENCE}"  # noqa: S608 - constants
_EVENTS = ("INSERT", "UPDATE", "DELETE")


class DatabaseBusy(Unavailable):
    """A transaction in the database does not end: try again when it has ended."""


class FenceIneffective(Conflict):
    """The database cannot be made read-only: a role has its own `default_transaction_read_only`."""


async def check_not_fenced(url: str, *, timeout_seconds: float) -> None:
    """Check that a database has no fence; a server that rejects writes for itself is none.

    Raises:
        WritesRejected: It has one, so its rows may be old: it was moved, or is being moved.
        DatabaseUnavailable: It cannot be read.
    """
    path = sqlite_path(url)
    if path is not None:
        is_fenced = await asyncio.to_thread(is_fenced_sqlite, path)
    else:
        try:
            connector = PostgresConnector(url, timeout_seconds=timeout_seconds)
            async with closing(connector.connect(command_seconds=timeout_seconds)) as raw:
                is_fenced = bool(await raw.fetchval(_IS_FENCED))
        except (asyncpg.PostgresError, *UNAVAILABLE) as error:
            raise DatabaseUnavailable from error
    if is_fenced:
        raise WritesRejected


async def fence_postgres(
    maintenance: Any, name: str, *, wait_seconds: float = FENCE_SECONDS_MAX
) -> None:
    """Make a PostgreSQL database reject writes, through its server or a connection to itself.

    Raises:
        DatabaseBusy: A session is in a transaction, or belongs to a role with other rights.
    """
    await maintenance.execute(_WRITABLE)
    await maintenance.execute(_SET.format(quoted(name)))
    if not await _end_sessions(maintenance, name, wait_seconds=wait_seconds):
        raise DatabaseBusy


async def is_fenced_postgres(raw: Any) -> bool:
    """Return whether new sessions of a PostgreSQL database are read-only, as *raw* is."""
    return bool(await raw.fetchval("SHOW default_transaction_read_only") == "on")


async def check_fence(raw: Any) -> None:
    """Check that new sessions of a fenced PostgreSQL database are read-only, of every role.

    Raises:
        FenceIneffective: They are not; a setting of a role has priority.
    """
    if not await is_fenced_postgres(raw) or await raw.fetchval(_ROLES_WITH_OTHER_DEFAULT):
        raise FenceIneffective


async def lift_postgres(maintenance: Any, name: str) -> None:
    """Let a PostgreSQL database accept writes again, if it exists.

    Idle sessions have read the setting, so they are ended. A busy one rejects its next write.
    """
    await maintenance.execute(_WRITABLE)
    try:
        await maintenance.execute(_RESET.format(quoted(name)))
    except asyncpg.InvalidCatalogNameError:
        return
    await _end_sessions(maintenance, name, wait_seconds=0)


async def _end_sessions(maintenance: Any, name: str, *, wait_seconds: float) -> bool:
    """End the idle sessions of a database, and wait for the others; return whether all ended."""
    before: datetime = await maintenance.fetchval(_NOW)
    until = monotonic_seconds() + wait_seconds
    empty_count = 0
    while True:
        (count, _ended) = await maintenance.fetchrow(_END_IDLE, name, before)
        empty_count = 0 if count else empty_count + 1
        if empty_count == EMPTY_LISTS:
            return True
        if count and monotonic_seconds() > until:
            return False
        await asyncio.sleep(POLL_SECONDS)


def fence_sqlite(path: Path, *, wait_seconds: float = FENCE_SECONDS_MAX) -> None:
    """Make a SQLite file reject writes. Blocks: call it in a thread.

    Raises:
        DatabaseBusy: Another connection did not end its transaction in time.
        DatabaseUnavailable: The file cannot be written.
    """
    with _changing(path, wait_seconds=wait_seconds) as raw:
        lift_open(raw)
        for number, (table,) in enumerate(raw.execute(_SQLITE_TABLES).fetchall()):
            for event in _EVENTS:
                raw.execute(
                    f'CREATE TRIGGER "{_PREFIX}{number}_{event.lower()}" '
                    f"BEFORE {event} ON {sqlite.quoted(table)} "
                    f"BEGIN SELECT RAISE(ABORT, '{sqlite.FENCED}'); END"
                )


def is_fenced_sqlite(path: Path) -> bool:
    """Return whether a SQLite file rejects writes. Blocks: call it in a thread.

    Raises:
        DatabaseUnavailable: The file cannot be read.
    """
    try:
        with contextlib.closing(sqlite3.connect(sqlite.file_uri(path), uri=True)) as raw:
            return bool(_triggers(raw))
    except sqlite3.Error as error:
        raise DatabaseUnavailable from error


def lift_sqlite(path: Path) -> None:
    """Let a SQLite file accept writes again, if it exists. Blocks: call it in a thread.

    Raises:
        DatabaseBusy, DatabaseUnavailable: As for `fence_sqlite`.
    """
    # Without a fence, there is no need to wait for another transaction.
    if not path.exists() or not is_fenced_sqlite(path):
        return
    with _changing(path) as raw:
        lift_open(raw)


@contextlib.contextmanager
def _changing(path: Path, *, wait_seconds: float = FENCE_SECONDS_MAX) -> Any:
    """Open a transaction with the write lock of the file."""
    try:
        with contextlib.closing(
            sqlite3.connect(
                sqlite.file_uri(path), uri=True, isolation_level=None, timeout=wait_seconds
            )
        ) as raw:
            raw.execute("BEGIN IMMEDIATE")
            yield raw
            raw.execute("COMMIT")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise DatabaseBusy from error
        raise DatabaseUnavailable from error


def _triggers(raw: sqlite3.Connection) -> list[tuple[str]]:
    return raw.execute(_SQLITE_TRIGGERS).fetchall()


def lift_open(raw: sqlite3.Connection) -> None:
    """Let an open SQLite file accept writes."""
    for (name,) in _triggers(raw):
        raw.execute(f'DROP TRIGGER "{name}"')
