"""Databases that were made elsewhere: read one, and remove what was added to one."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import asyncpg

from tenantry.db.inspection import DatabaseMissing, open_to_read
from tenantry.db.postgres import CLOSE_SECONDS_MAX, UNAVAILABLE
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Conflict
from tenantry.migration import schema_state
from tenantry.migration.scripts import BOOTSTRAP_LOCK, BOOTSTRAP_WAIT_MS

PREFIX = "tenantry_"
CLASHES_SHOWN_MAX = 10

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
    (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{schema_state.log.name}'))
"""  # noqa: S608 - constants


class MayNotCreate(Conflict):
    """Tenantry's role may not create tables in the first schema of its search path."""


class AlreadyTenantry(Conflict):
    """This is a database of Tenantry's already."""


class NamesTaken(Conflict):
    """Names in the database begin as Tenantry's own do."""


async def inspect_database(server: Server, database: str, *, version_table: str) -> list[str]:
    """Check that *database* can be adopted, and change nothing.

    Args:
        server: Has it, or is to have its copy.
        database: Its name on the server; or the path of its file.
        version_table: Of its own revisions.

    Returns:
        The rows of its version table; none when there is no such table.

    Raises:
        Invalid, Conflict: It cannot be adopted; the classes here and in `db.inspection` say why.
        DatabaseUnavailable: The server cannot be reached.
        Exception: Whatever the driver raises at the database itself.
    """
    await server.check_listed(database)
    url = server.foreign_url(database)
    path = sqlite_path(url)
    if path is not None:
        return await asyncio.to_thread(check_sqlite, path, version_table=version_table)
    return await check_postgres(
        url, version_table=version_table, timeout_seconds=server.timeout_seconds
    )


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
            rows = await raw.fetch(schema_state.read_user_version(version_table).postgresql.sql)
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
    with contextlib.closing(open_to_read(path)) as raw:
        _check_names([str(row[0]) for row in raw.execute(_SQLITE_CLASHES)])
        try:
            rows = raw.execute(schema_state.read_user_version(version_table).sqlite.sql).fetchall()
        except sqlite3.OperationalError as error:
            if str(error).startswith("no such table"):
                return []
            raise
        return [str(row[0]) for row in rows]


async def undo_adoption(server: Server, name: str, run_id: UUID) -> None:
    """Drop the copy of a SQLite file, or our tables from a PostgreSQL database.

    Args:
        server: Has the database.
        name: Of the database there.
        run_id: Whose tables are dropped.

    Raises:
        DatabaseUnavailable: It cannot be reached, or is in use.
    """
    url = server.url(name)
    if sqlite_path(url) is not None:
        await server.drop(name)
        return
    try:
        await remove_added(url, run_id, timeout_seconds=server.timeout_seconds)
    except (asyncpg.PostgresError, *UNAVAILABLE) as error:
        raise DatabaseUnavailable from error


async def remove_added(url: str, run_id: UUID, *, timeout_seconds: float) -> None:
    """Drop our tables from the database at *url*, if *run_id* has made them.

    A database that is gone has none.

    Raises:
        Exception: Whatever the driver raises.
    """
    try:
        raw = await asyncpg.connect(
            url,
            timeout=timeout_seconds,
            command_timeout=timeout_seconds,
            server_settings={"application_name": "tenantry-adopt"},
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
    if schema_state.version.name in clashes:
        raise AlreadyTenantry
    if clashes:
        shown = ", ".join(clashes[:CLASHES_SHOWN_MAX])
        raise NamesTaken(f"Names in the database begin as Tenantry's own do: {shown}.")


async def _was_made_by(raw: "asyncpg.Connection[asyncpg.Record]", run_id: UUID) -> bool:
    try:
        async with raw.transaction():
            applied = schema_state.READ_APPLIED.postgresql
            return bool(await raw.fetch(applied.sql, *applied.arguments({"run": run_id})))
    except asyncpg.UndefinedTableError:
        return False
