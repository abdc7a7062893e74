"""Databases that were made elsewhere: read one, and remove what was added to one."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg

from tenantry.db.inspection import DatabaseMissing, open_to_read
from tenantry.db.postgres import CLOSE_SECONDS_MAX, UNAVAILABLE
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Conflict
from tenantry.migration import schema_state, stamp
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


# Of any name and in any schema; Alembic's has one column. A foreign table can be one, too.
_VERSION_TABLES = """
SELECT nspname, relname, pg_class.oid = to_regclass(quote_ident($1)) AS is_own
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p', 'f')
    AND nspname <> 'information_schema' AND NOT starts_with(nspname, 'pg_')
    AND (relname IN ($1, 'alembic_version') OR ARRAY['version_num'] =
        (SELECT array_agg(attname::text) FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped))
ORDER BY nspname, relname
"""
_TABLES = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p', 'f')
    AND nspname <> 'information_schema' AND NOT starts_with(nspname, 'pg_')
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
        AND objid = pg_class.oid AND deptype = 'e')  -- an extension's
"""
_SQLITE_TABLES = """
SELECT name, (SELECT group_concat(lower(name)) FROM pragma_table_info(sqlite_master.name))
FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_VERSION_COLUMN = "version_num"


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a database says of its own revisions.

    Attributes:
        versions: The rows of its version table; none when there is no such table.
        elsewhere: Other tables that look like a version table of Alembic's, with their schemas.
        has_tables: Whether there are tables beside those.
    """

    versions: list[str]
    elsewhere: list[str]
    has_tables: bool


class MayNotCreate(Conflict):
    """Tenantry's role may not create tables in the first schema of its search path."""


class AlreadyTenantry(Conflict):
    """This is a database of Tenantry's already."""


class NamesTaken(Conflict):
    """Names in the database begin as Tenantry's own do."""


async def inspect_database(server: Server, database: str, *, version_table: str) -> Inspected:
    """Check that *database* can be adopted, and change nothing.

    Args:
        server: Has it, or is to have its copy.
        database: Its name on the server; or the path of its file.
        version_table: Of its own revisions.

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


async def check_postgres(url: str, *, version_table: str, timeout_seconds: float) -> Inspected:
    """Read the database at *url*, and return what it says of its own revisions.

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
        found = await raw.fetch(_VERSION_TABLES, version_table)
        tables = await raw.fetch(_TABLES)
        try:
            rows = await raw.fetch(schema_state.read_user_version(version_table).postgresql.sql)
        except asyncpg.UndefinedTableError:
            rows = []
        return Inspected(
            [str(row[0]) for row in rows],
            [f"{row['nspname']}.{row['relname']}" for row in found if not row["is_own"]],
            has_tables=len(tables) > len(found),
        )
    finally:
        await raw.close(timeout=CLOSE_SECONDS_MAX)


def check_sqlite(path: Path, *, version_table: str) -> Inspected:
    """Read the file at *path*, and return what it says of its own revisions.

    Raises:
        DatabaseMissing, AlreadyTenantry, NamesTaken: It cannot be adopted.
        Exception: Whatever the driver raises.
    """
    if not path.is_file():
        raise DatabaseMissing(f"There is no file {path}.")
    with contextlib.closing(open_to_read(path)) as raw:
        _check_names([str(row[0]) for row in raw.execute(_SQLITE_CLASHES)])
        tables = raw.execute(_SQLITE_TABLES).fetchall()
        own, known = version_table.lower(), {version_table.lower(), "alembic_version"}
        found = [
            str(name)
            for name, columns in tables
            if name.lower() in known or columns == _VERSION_COLUMN
        ]
        read = schema_state.read_user_version(version_table).sqlite.sql
        has_own = any(name.lower() == own for name, _ in tables)
        rows = raw.execute(read).fetchall() if has_own else []
        return Inspected(
            [str(row[0]) for row in rows],
            [name for name in found if name.lower() != own],
            has_tables=len(tables) > len(found),
        )


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
                await stamp.take_back(raw, run_id)
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
