"""Versions of collations on PostgreSQL: after an upgrade of ICU or libc, texts sort differently.

The server records the version of each collation, and warns when the library has another one. An
index that was built with the old one misses rows.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tenantry.db.postgres.connector import Raw
from tenantry.db.servers import quoted

# The version of a database's own collation is recorded since this version.
# Source: https://www.postgresql.org/docs/15/release-15.html, "E.?.3.3.3. System Catalogs".
_OF_DATABASES_SINCE = 15
_LOCK_SECONDS_MAX = 5

_DATABASES = """
SELECT datname::text FROM pg_database WHERE datname = ANY($1::text[]) AND datcollversion IS NOT NULL
    AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) ORDER BY 1
"""
# 100 is the collation of the database. $1 is whether that is outdated.
_OUTDATED = """
WITH outdated (id) AS (
    SELECT oid FROM pg_collation WHERE collversion IS NOT NULL
        AND collversion IS DISTINCT FROM pg_collation_actual_version(oid)
    UNION ALL SELECT 100 WHERE $1::boolean
)
"""
_INDEXES = f"""{_OUTDATED}
SELECT pg_catalog.format('%I.%I', nspname, relname)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'i' AND nspname !~ '^(pg_|information_schema$)'
    AND EXISTS (SELECT FROM outdated WHERE id = ANY(indcollation::oid[]))
ORDER BY 1
"""  # noqa: S608 - constants
_COLLATIONS = f"""{_OUTDATED}
SELECT pg_catalog.format('%I.%I', nspname, collname), pg_has_role(collowner, 'USAGE')
FROM pg_collation JOIN outdated ON id = pg_collation.oid
JOIN pg_namespace ON pg_namespace.oid = collnamespace
WHERE id <> 100 AND EXISTS (SELECT FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    JOIN pg_namespace AS space ON space.oid = relnamespace
    WHERE attcollation = id AND space.nspname !~ '^(pg_|information_schema$)')
ORDER BY 1
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was done in a database.

    Attributes:
        indexes: How many were rebuilt.
        versions: How many versions were recorded: of collations, and of the database.
        left: The collations whose versions only their owner, a superuser, can record.
    """

    indexes: int
    versions: int
    left: tuple[str, ...]


async def find_outdated(raw: Raw, names: Collection[str]) -> list[str]:
    """Return which of the databases *names* have another version than the server's library."""
    if raw.get_server_version().major < _OF_DATABASES_SINCE:
        return []
    return [str(row[0]) for row in await raw.fetch(_DATABASES, list(names))]


async def refresh(raw: Raw) -> Refreshed:
    """Rebuild the indexes of a database whose collations are outdated, and record the versions.

    A table rejects writes while its indexes are rebuilt. It can be repeated after an error.

    Raises:
        Exception: Any error of the driver.
    """
    database = str(await raw.fetchval("SELECT current_database()"))
    is_outdated = database in await find_outdated(raw, [database])
    indexes = [str(row[0]) for row in await raw.fetch(_INDEXES, is_outdated)]
    collations = await raw.fetch(_COLLATIONS, is_outdated)
    await raw.execute(f"SET lock_timeout = '{_LOCK_SECONDS_MAX}s'")
    for name in indexes:
        await raw.execute(f"REINDEX INDEX {name}")
    owned = [name for name, is_owned in collations if is_owned]
    for name in owned:
        await raw.execute(f"ALTER COLLATION {name} REFRESH VERSION")
    if is_outdated:
        await raw.execute(f"ALTER DATABASE {quoted(database)} REFRESH COLLATION VERSION")
    left = tuple(name for name, is_owned in collations if not is_owned)
    return Refreshed(len(indexes), len(owned) + is_outdated, left)
