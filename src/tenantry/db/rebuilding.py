"""What a restore of a PostgreSQL database could not rebuild, found before a dump of it is used.

A restore has the search path of the database. It evaluates functions again: in indexes,
materialized views, check constraints, generated columns and domains.
"""

from collections import Counter

import asyncpg

from tenantry.db.postgres_connector import Raw
from tenantry.kit.errors import Conflict

# Since this version, indexes and materialized views are built with a search path of their own.
# Source: https://www.postgresql.org/docs/17/release-17.html, "Migration to Version 17".
_OWN_PATH_SINCE = 170_000
_OWN_PATH = "SELECT set_config('search_path', 'pg_catalog, pg_temp', true)"
ROWS_PROBED = 100

# pg_dump writes SQL for a path on which pg_catalog is first.
RESTORE_PATH = """
SELECT concat(CASE WHEN (current_schemas(true))[1] <> 'pg_catalog' THEN 'pg_catalog, ' END,
    current_setting('search_path'))
"""

# Functions that are written in a language, so their text can name others.
_USES_WRITTEN = """
EXISTS (SELECT FROM pg_depend JOIN pg_proc ON pg_proc.oid = refobjid
    JOIN pg_language ON pg_language.oid = prolang
    WHERE refclassid = 'pg_proc'::regclass AND lanname NOT IN ('c', 'internal')
        AND classid = '{}'::regclass AND objid = {})
"""
_BUILT_ALONE = f"""
WITH RECURSIVE used (id, relation) AS (
    SELECT oid, oid FROM pg_class WHERE relkind = 'm' AND relispopulated
    UNION
    SELECT id, refobjid FROM used JOIN pg_rewrite ON ev_class = relation
    JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = pg_rewrite.oid
    WHERE refclassid = 'pg_class'::regclass
)
SELECT 'materialized view ' || id::regclass AS name,
    pg_catalog.format('SELECT count(one) FROM (%s) AS one', rtrim(pg_get_viewdef(id), ';')) AS query
FROM used JOIN pg_rewrite ON ev_class = relation
WHERE {_USES_WRITTEN.format("pg_rewrite", "pg_rewrite.oid")}
UNION
SELECT 'index ' || indexrelid::regclass, pg_catalog.format(
    'SELECT count(ROW(%s)) FROM ONLY %s WHERE %s',
    coalesce(pg_get_expr(indexprs, indrelid), 'NULL'), indrelid::regclass,
    coalesce(pg_get_expr(indpred, indrelid), 'true'))
FROM pg_index WHERE {_USES_WRITTEN.format("pg_class", "indexrelid")}
ORDER BY 1
"""  # noqa: S608 - constants
_WITH_ROWS = f"""
SELECT name, of, is_value, pg_catalog.format(
    'SELECT count(one) FROM (SELECT (%s) AS one FROM ONLY %s LIMIT {ROWS_PROBED}) AS probed',
    expression, of::regclass) AS query
FROM (
    SELECT 'check constraint ' || quote_ident(conname), conrelid, false,
        pg_get_expr(conbin, conrelid)
    FROM pg_constraint
    WHERE contype = 'c' AND conrelid <> 0 AND {_USES_WRITTEN.format("pg_constraint", "pg_constraint.oid")}
    UNION ALL
    SELECT 'generated column ' || quote_ident(attname), adrelid, true, pg_get_expr(adbin, adrelid)
    FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE attgenerated = 's' AND {_USES_WRITTEN.format("pg_attrdef", "pg_attrdef.oid")}
    UNION ALL
    SELECT 'domain ' || contypid::regtype, attrelid, false, pg_catalog.format('%I::%s::%s', attname,
        format_type(typbasetype, typtypmod), contypid::regtype)
    FROM pg_constraint JOIN pg_type ON pg_type.oid = contypid JOIN pg_attribute ON atttypid = contypid
    JOIN pg_class ON pg_class.oid = attrelid
    WHERE relkind = 'r' AND NOT attisdropped
        AND {_USES_WRITTEN.format("pg_constraint", "pg_constraint.oid")}
) AS found (name, of, is_value, expression)
ORDER BY 1
"""  # noqa: S608, E501 - constants
_SCANS = """
SELECT relid, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables
"""
# pg_dump writes the rows of tables in this order. Source: its sortDumpableObjectsByTypeName.
_LATER = """
SELECT one.oid::regclass::text
FROM pg_class AS one JOIN pg_namespace AS its ON its.oid = one.relnamespace,
    pg_class AS other JOIN pg_namespace AS space ON space.oid = other.relnamespace
WHERE one.oid = ANY($1::oid[]) AND other.oid = $2 AND (one.oid <> other.oid OR $3)
    AND (its.nspname, one.relname) >= (space.nspname, other.relname)
ORDER BY 1 LIMIT 1
"""


class NotRebuilt(Conflict):
    """A restore could not rebuild something in the database; the message names it, and says why."""


async def check_rebuilt(raw: Raw) -> None:
    """Check, in the transaction of *raw*, that a restore can evaluate the functions again.

    Raises:
        NotRebuilt: It cannot, or it would load the rows that a function reads too late.
        Exception: Any error of the driver.
    """
    for name, of, is_value, query in await raw.fetch(_WITH_ROWS):
        before = await _scans(raw)
        await _evaluate(raw, name, query)
        read = await _scans(raw) - before - Counter([of])
        later = await raw.fetchval(_LATER, [*read], of, is_value)
        if later is not None:
            raise NotRebuilt(
                f"The {name} calls a function that reads the table {later}, whose rows a restore "
                f"loads later: use a trigger instead."
            )
    if int(await raw.fetchval("SHOW server_version_num")) < _OWN_PATH_SINCE:
        return
    path = await raw.fetchval("SHOW search_path")
    await raw.execute(_OWN_PATH)
    for name, query in await raw.fetch(_BUILT_ALONE):
        await _evaluate(raw, name, query)
    await raw.fetchval("SELECT set_config('search_path', $1, true)", path)


async def _evaluate(raw: Raw, name: str, query: str) -> None:
    try:
        async with raw.transaction():
            await raw.fetchval(query, timeout=None)
    except asyncpg.InsufficientPrivilegeError:
        raise
    except asyncpg.ReadOnlySQLTransactionError:
        pass  # a function that writes: a restore does not run in a read-only transaction
    except asyncpg.SyntaxOrAccessError as error:
        raise NotRebuilt(
            f"The {name} could not be rebuilt by a restore, nor by REINDEX or REFRESH: "
            f"{error.message}. Set the search path of the function that it calls (ALTER FUNCTION … "
            "SET search_path = …)."
        ) from error


async def _scans(raw: Raw) -> "Counter[int]":
    """Return how often this transaction has read each table."""
    return Counter({row[0]: row[1] for row in await raw.fetch(_SCANS)})
