"""What a restore of a PostgreSQL database could not rebuild, found before a dump of it is used.

A restore evaluates functions again: in indexes, materialized views, check constraints, generated
columns and domains. So it has the search path of the database, unless the path could change what
the SQL of pg_dump means.
"""

from collections import Counter

import asyncpg

from tenantry.db.copying.survey import OWN
from tenantry.db.outage_errors import is_outage
from tenantry.db.postgres.connector import Raw
from tenantry.kit.errors import Conflict

# Since this version, indexes and materialized views are built with a search path of their own.
# Source: https://www.postgresql.org/docs/17/release-17.html, "Migration to Version 17".
_OWN_PATH_SINCE = 170_000
_OWN_PATH = "SELECT set_config('search_path', 'pg_catalog, pg_temp', true)"
# An expression that needs longer than this, for all rows, is not judged.
PROBE_SECONDS_MAX = 60.0

# pg_dump writes SQL for a path on which pg_catalog is first.
_RESTORE_PATH = """
SELECT concat(CASE WHEN (current_schemas(true))[1] <> 'pg_catalog' THEN 'pg_catalog, ' END,
    current_setting('search_path'))
"""
# pg_dump writes the exact types of arguments, so pg_catalog, the first on the path, keeps what is
# its own: but not a function or operator of any type, for which another one can fit better.
# Source: https://www.postgresql.org/docs/current/typeconv-func.html, steps 1 to 4.
_SHADOWING = """
WITH called (name, space, types, is_loose) AS (
    SELECT proname, pronamespace, proargtypes::oid[], provariadic <> 0 OR pronargdefaults > 0
    FROM pg_proc WHERE prokind <> 'p'
    UNION ALL
    SELECT oprname, oprnamespace, ARRAY[oprleft, oprright], false FROM pg_operator
)
SELECT pg_catalog.format('%I.%s', nspname, own.name)
FROM called AS own JOIN pg_namespace ON pg_namespace.oid = own.space
JOIN called AS builtin ON builtin.name = own.name
WHERE nspname = ANY(current_schemas(false)) AND nspname <> 'pg_catalog'
    AND builtin.space = 'pg_catalog'::regnamespace
    AND EXISTS (SELECT FROM pg_type WHERE oid = ANY(builtin.types)
        AND (pg_catalog.starts_with(typname, 'any') OR typname = 'record'))
    AND (own.is_loose OR builtin.is_loose OR cardinality(own.types) = cardinality(builtin.types)
        AND NOT EXISTS (
            SELECT FROM unnest(builtin.types, own.types) AS pair (wanted, given)
            JOIN pg_type AS wanted ON wanted.oid = pair.wanted
            JOIN pg_type AS given ON given.oid = pair.given
            WHERE given.typcategory NOT IN ('P', CASE
                WHEN wanted.typname ~ '^any(compatible)?array$' THEN 'A'
                WHEN wanted.typname ~ '^any.*range$' THEN 'R'
                WHEN wanted.typname = 'anyenum' THEN 'E'
                WHEN wanted.typname = 'record' THEN 'C'
                WHEN wanted.typtype = 'p' THEN given.typcategory
                ELSE wanted.typcategory END)))
ORDER BY 1 LIMIT 1
"""
# Of what a restore evaluates: a function whose text can name others, which are found on the path.
_NEEDS_PATH = """
WITH RECURSIVE used (class, id) AS (
    SELECT 'pg_constraint'::regclass::oid, oid FROM pg_constraint WHERE contype = 'c'
    UNION
    SELECT 'pg_attrdef'::regclass, pg_attrdef.oid FROM pg_attrdef
    JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE attgenerated <> ''
    UNION
    SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relkind IN ('i', 'm', 'p')
    UNION
    SELECT edge.* FROM used, LATERAL (
        SELECT refclassid, refobjid FROM pg_depend WHERE classid = class AND objid = id
        UNION ALL
        SELECT 'pg_rewrite'::regclass, oid FROM pg_rewrite
        WHERE class = 'pg_class'::regclass AND ev_class = id
    ) AS edge
)
SELECT pg_proc.oid::regprocedure::text FROM used JOIN pg_proc ON pg_proc.oid = id
JOIN pg_language ON pg_language.oid = prolang
WHERE class = 'pg_proc'::regclass AND prokind <> 'a' AND lanname NOT IN ('c', 'internal')
    AND NOT EXISTS (SELECT FROM unnest(proconfig) AS own
        WHERE pg_catalog.starts_with(own, 'search_path='))
ORDER BY 1 LIMIT 1
"""

# Functions that are written in a language, so their text can name others.
_USES_WRITTEN = """
EXISTS (SELECT FROM pg_depend JOIN pg_proc ON pg_proc.oid = refobjid
    JOIN pg_language ON pg_language.oid = prolang
    WHERE refclassid = 'pg_proc'::regclass AND lanname NOT IN ('c', 'internal')
        AND classid = '{}'::regclass AND objid = {})
"""
_BUILT_ALONE = f"""
SELECT 'materialized view ' || oid::regclass AS name, pg_catalog.format(
    'SELECT pg_catalog.count(one) FROM (%s) AS one', rtrim(pg_get_viewdef(oid), ';')) AS query
FROM pg_class WHERE relkind = 'm' AND relispopulated
UNION
SELECT 'index ' || indexrelid::regclass, pg_catalog.format(
    'SELECT pg_catalog.count(ROW(%s)) FROM ONLY %s WHERE %s',
    coalesce(pg_get_expr(indexprs, indrelid), 'NULL'), indrelid::regclass,
    coalesce(pg_get_expr(indpred, indrelid), 'true'))
FROM pg_index WHERE {_USES_WRITTEN.format("pg_class", "indexrelid")}
ORDER BY 1
"""  # noqa: S608 - constants
# A restore adds a constraint that is NOT VALID without evaluating it.
_WITH_ROWS = f"""
WITH own (id) AS (
    SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind = 'r' AND {OWN}
)
SELECT name, id, is_value, pg_catalog.format(
    'SELECT pg_catalog.%s(%s) FROM ONLY %s', judged, expression, id::regclass) AS query
FROM (
    SELECT 'check constraint ' || quote_ident(conname), conrelid, false, 'bool_and',
        pg_get_expr(conbin, conrelid)
    FROM pg_constraint WHERE contype = 'c' AND convalidated
    UNION
    SELECT 'generated column ' || quote_ident(attname), adrelid, true, 'count',
        pg_get_expr(adbin, adrelid)
    FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE attgenerated = 's' AND {_USES_WRITTEN.format("pg_attrdef", "pg_attrdef.oid")}
    UNION
    SELECT 'domain ' || contypid::regtype, attrelid, false, 'count', pg_catalog.format(
        '%I::%s::%s', attname, format_type(typbasetype, typtypmod), contypid::regtype)
    FROM pg_constraint JOIN pg_type ON pg_type.oid = contypid JOIN pg_attribute ON atttypid = contypid
    WHERE contype = 'c' AND NOT attisdropped
    GROUP BY contypid, attrelid, attname, typbasetype, typtypmod HAVING bool_and(convalidated)
) AS found (name, of, is_value, judged, expression) JOIN own ON id = of
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

_NOT_REBUILT = "The {} could not be rebuilt by a restore"
_SET_PATH = (
    "REINDEX and REFRESH fail, too: set the search path of the function that it calls (ALTER "
    "FUNCTION … SET search_path = …)."
)
_CORRECT = "Correct the rows or the definition, or make a constraint NOT VALID."


class NotRebuilt(Conflict):
    """A restore could not rebuild something in the database; the message names it, and says why."""


async def restore_path(raw: Raw) -> str:
    """Return the search path of a restore; empty, as pg_dump has it, if another is not safe.

    Raises:
        NotRebuilt: A restore needs the path of the database, and it is not safe.
        Exception: Any error of the driver.
    """
    shadowing = await raw.fetchval(_SHADOWING)
    if shadowing is None:
        return str(await raw.fetchval(_RESTORE_PATH))
    needing = await raw.fetchval(_NEEDS_PATH)
    if needing is None:
        return ""
    raise NotRebuilt(
        f"A restore evaluates the function {needing}, which can need the search path, and on that "
        f"path {shadowing} could replace a built-in one of the same name: ALTER FUNCTION {needing} "
        "SET search_path = …."
    )


async def check_rebuilt(raw: Raw) -> None:
    """Check, in the transaction of *raw*, that a restore can evaluate the functions again.

    Raises:
        NotRebuilt: It cannot, or it would load the rows that a function reads too late.
        Exception: Any error of the driver.
    """
    before = await _scans(raw)
    for name, of, is_value, query in await raw.fetch(_WITH_ROWS):
        await _evaluate(raw, name, query)
        after = await _scans(raw)
        later = await raw.fetchval(_LATER, [*(after - before - Counter([of]))], of, is_value)
        before = after
        if later is not None:
            raise NotRebuilt(
                f"The {name} calls a function that reads the table {later}, whose rows a restore "
                f"loads later: use a trigger instead."
            )
    path = await raw.fetchval("SHOW search_path")
    await raw.execute(_OWN_PATH)
    built = await raw.fetch(_BUILT_ALONE)
    if int(await raw.fetchval("SHOW server_version_num")) < _OWN_PATH_SINCE:
        await raw.fetchval("SELECT set_config('search_path', $1, true)", path)
    for name, query in built:
        await _evaluate(raw, name, query)
    await raw.fetchval("SELECT set_config('search_path', $1, true)", path)


async def _evaluate(raw: Raw, name: str, query: str) -> None:
    try:
        async with raw.transaction():
            value = await raw.fetchval(query, timeout=PROBE_SECONDS_MAX)
    except (asyncpg.ReadOnlySQLTransactionError, TimeoutError):
        return  # a function that writes: a restore does not run in a read-only transaction
    except asyncpg.PostgresError as error:
        if isinstance(error, asyncpg.InsufficientPrivilegeError) or is_outage(error):
            raise
        remedy = _SET_PATH if isinstance(error, asyncpg.SyntaxOrAccessError) else _CORRECT
        raise NotRebuilt(f"{_NOT_REBUILT.format(name)}: {error.message}. {remedy}") from error
    if value is False:
        raise NotRebuilt(f"{_NOT_REBUILT.format(name)}: rows violate it. {_CORRECT}")


async def _scans(raw: Raw) -> "Counter[int]":
    """Return how often this transaction has read each table."""
    return Counter({row[0]: row[1] for row in await raw.fetch(_SCANS)})
