"""Databases that Tenantry did not create: inspect one, and remove tables added to it."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import sqlalchemy as sa

from tenantry.db.inspection import DatabaseMissing, open_to_read
from tenantry.db.postgres.connections import UNAVAILABLE
from tenantry.db.postgres.connector import PostgresConnector, Raw, closing
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Conflict
from tenantry.migration import schema_state
from tenantry.migration.bootstrap import BOOTSTRAP_LOCK
from tenantry.migration.lock_timeouts import BOOTSTRAP_WAIT_MS, lock_timeout_sql
from tenantry.migration.schema_state import STAMPED_ROW, STAMPED_TABLE

PREFIX = "tenantry_"
APPLICATION = "tenantry-adopt"
CLASHES_SHOWN_MAX = 10

_MAY_CREATE = "SELECT COALESCE(pg_catalog.has_schema_privilege(current_schema(), 'CREATE'), FALSE)"
_CLASHES = f"""
SELECT relname FROM pg_class WHERE pg_catalog.starts_with(relname, '{PREFIX}') ORDER BY relname
"""  # noqa: S608 - a constant
# In LIKE, an underscore matches any character. Names in SQLite are not case-sensitive.
_SQLITE_CLASHES = """
SELECT lower(name) FROM sqlite_master WHERE name LIKE 'tenantry\\_%' ESCAPE '\\' ORDER BY name
"""
_ADDED = f"""
SELECT pg_catalog.format('%I.%I', nspname, relname)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p') AND pg_catalog.starts_with(relname, '{PREFIX}') AND relnamespace =
    (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{schema_state.log.name}'))
"""  # noqa: S608 - constants
_LOGGED = f"SELECT FROM {schema_state.log.name} WHERE run_id = $1 LIMIT 1"
_STAMPED = f"""
SELECT stream, pg_catalog.quote_ident(revision) FROM {schema_state.log.name}
WHERE run_id = $1 AND stream IN ('{STAMPED_TABLE}', '{STAMPED_ROW}')
"""  # noqa: S608 - constants
# The tables of the database's own. Alembic's version table has one column; its name and schema are
# free. It can be a foreign table.
_TABLES = """
SELECT nspname || '.' || relname, pg_class.oid = to_regclass(pg_catalog.quote_ident($1)) AS is_own,
    relname IN ($1, 'alembic_version') OR ARRAY['version_num'] =
        (SELECT pg_catalog.array_agg(attname::text) FROM pg_attribute
        WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped) AS is_version
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'p', 'f')
    AND nspname <> 'information_schema' AND NOT pg_catalog.starts_with(nspname, 'pg_')
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
        AND objid = pg_class.oid AND deptype = 'e')  -- an extension's
ORDER BY nspname, relname
"""
_SQLITE_TABLES = """
SELECT name, lower(name) = lower(?1) AS is_own,
    lower(name) IN (lower(?1), 'alembic_version') OR 'version_num' =
        (SELECT group_concat(lower(name)) FROM pragma_table_info(sqlite_master.name)) AS is_version
FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Inspected:
    """The state of a database's own revisions.

    Attributes:
        versions: The rows of its version table; empty without such a table.
        elsewhere: Other tables with the columns or the name of Alembic's, with their schemas.
        has_tables: Whether there are any other tables.
    """

    versions: list[str]
    elsewhere: list[str]
    has_tables: bool


class MayNotCreate(Conflict):
    """Tenantry's role may not create tables in the first schema of its search path."""


class AlreadyTenantry(Conflict):
    """This is already a database of Tenantry. For a restored copy of a tenant, use --as NAME."""


class NamesTaken(Conflict):
    """Names in the database begin with tenantry_, which is reserved."""


async def inspect_database(server: Server, database: str, *, version_table: str) -> Inspected:
    """Check that *database* can be adopted, and change nothing.

    It is a name on the server, or the path of a file, of which the server will have a copy.
    *version_table* is that of its own revisions.

    Raises:
        Invalid, Conflict: It cannot be adopted; see the classes here and in `db.inspection`.
        DatabaseUnavailable: The server cannot be reached.
        Exception: Any error of the driver at the database itself.
    """
    await server.check_listed(database)
    url = server.foreign_url(database)
    path = sqlite_path(url)
    if path is not None:
        return await asyncio.to_thread(_check_sqlite, path, version_table=version_table)
    return await _check_postgres(
        url, version_table=version_table, timeout_seconds=server.timeout_seconds
    )


async def _check_postgres(url: str, *, version_table: str, timeout_seconds: float) -> Inspected:
    """Read the database at *url*, and return the state of its own revisions.

    Raises:
        AlreadyTenantry, NamesTaken, MayNotCreate: It cannot be adopted.
        Exception: Any error of the driver.
    """
    async with _connected(url, timeout_seconds, default_transaction_read_only="on") as raw:
        _check_names([str(row[0]) for row in await raw.fetch(_CLASHES)])
        if not await raw.fetchval(_MAY_CREATE):
            raise MayNotCreate
        tables = await raw.fetch(_TABLES, version_table)
        try:
            rows = await raw.fetch(_read_versions(version_table))
        except asyncpg.UndefinedTableError:
            rows = []
        return _inspected(tables, rows)


def _check_sqlite(path: Path, *, version_table: str) -> Inspected:
    """Read the file at *path*, and return the state of its own revisions.

    Raises:
        DatabaseMissing, AlreadyTenantry, NamesTaken: It cannot be adopted.
        Exception: Any error of the driver.
    """
    if not path.is_file():
        raise DatabaseMissing(f"There is no file {path}.")
    with contextlib.closing(open_to_read(path)) as raw:
        _check_names([str(row[0]) for row in raw.execute(_SQLITE_CLASHES)])
        tables = raw.execute(_SQLITE_TABLES, (version_table,)).fetchall()
        has_own = any(is_own for _, is_own, _ in tables)
        rows = raw.execute(_read_versions(version_table)).fetchall() if has_own else []
        return _inspected(tables, rows)


def _inspected(tables: Sequence[Any], versions: Sequence[Any]) -> Inspected:
    """Return the state for its tables (name, is_own, is_version) and the rows of its own one."""
    return Inspected(
        [str(row[0]) for row in versions],
        [str(name) for name, is_own, is_version in tables if is_version and not is_own],
        has_tables=not all(is_version for _, _, is_version in tables),
    )


async def undo_adoption(server: Server, name: str, run_id: UUID) -> None:
    """Drop the copy of a SQLite file, or the tables that *run_id* added to a PostgreSQL database.

    A missing database is ignored.

    Raises:
        DatabaseUnavailable: It cannot be reached, or is in use.
    """
    url = server.url(name)
    if sqlite_path(url) is not None:
        await server.drop(name)
        return
    try:
        async with _connected(url, server.timeout_seconds) as raw, raw.transaction():
            await raw.execute(lock_timeout_sql(BOOTSTRAP_WAIT_MS))
            # A statement of a killed process may still be running on the server: wait for its lock.
            await raw.execute(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
            added = ", ".join(str(row[0]) for row in await raw.fetch(_ADDED))
            if added and await raw.fetch(_LOGGED, run_id):
                for kind, table in await raw.fetch(_STAMPED, run_id):
                    undo = "DROP TABLE" if kind == STAMPED_TABLE else "DELETE FROM"
                    await raw.execute(f"{undo} {table}")
                await raw.execute(f"DROP TABLE {added}")
    except asyncpg.InvalidCatalogNameError:
        return
    except (asyncpg.PostgresError, *UNAVAILABLE) as error:
        raise DatabaseUnavailable from error


def _connected(
    url: str, timeout_seconds: float, **session: str
) -> contextlib.AbstractAsyncContextManager[Raw]:
    connector = PostgresConnector(url, timeout_seconds=timeout_seconds)
    return closing(
        connector.connect(application=APPLICATION, session=session, command_seconds=timeout_seconds)
    )


def _read_versions(table: str) -> str:
    return str(sa.select(schema_state.user_version_table(table).c.version_num))


def _check_names(clashes: Sequence[str]) -> None:
    if schema_state.version.name in clashes:
        raise AlreadyTenantry
    if clashes:
        shown = ", ".join(clashes[:CLASHES_SHOWN_MAX])
        raise NamesTaken(f"Names in the database begin with {PREFIX}, which is reserved: {shown}.")
