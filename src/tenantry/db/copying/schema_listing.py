"""The schema of a database as a list of objects, and the differences between two such lists.

Names, types and structure are compared. Expressions are not (defaults, checks, bodies of functions
and views): a server writes some of them differently after a dump and a restore.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from tenantry.db.copying.survey import OWN
from tenantry.db.write_fence import IS_OF_FENCE
from tenantry.kit.errors import Unavailable

OBJECTS_MAX = 20_000
"""The most objects that are read of a schema."""
TEXT_CHARS_MAX = 200

_OF_TABLE = "JOIN pg_namespace ON pg_namespace.oid = relnamespace"
_NOT_OF_EXTENSION = """
NOT EXISTS (SELECT FROM pg_depend WHERE classid = '{table}'::regclass
    AND objid = {table}.oid AND deptype = 'e')
AND nspname <> 'information_schema' AND NOT starts_with(nspname, 'pg_')
"""
_POSTGRESQL = f"""
SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view'
        WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'sequence' END,
    format('%I.%I', nspname, relname), ''
FROM pg_class {_OF_TABLE} WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND {OWN}
UNION ALL
SELECT 'column', format('%I.%I.%I', nspname, relname, attname),
    concat_ws(' ', format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN attidentity <> '' THEN 'IDENTITY' WHEN attgenerated <> '' THEN 'GENERATED'
            WHEN atthasdef THEN 'DEFAULT' END)
FROM pg_class {_OF_TABLE}
JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND {OWN}
UNION ALL
SELECT 'index', format('%I.%I', nspname, named.relname),
    concat_ws(' ', CASE WHEN indisunique THEN 'UNIQUE' END,
        format('ON %I (%s)', pg_class.relname, (
            SELECT string_agg(coalesce(attname, 'expression'), ', ' ORDER BY place)
            FROM unnest(indkey::int2[]) WITH ORDINALITY AS keys (number, place)
            LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = number AND number <> 0)),
        CASE WHEN indpred IS NOT NULL THEN 'WHERE' END, CASE WHEN NOT indisvalid THEN 'INVALID' END)
FROM pg_class {_OF_TABLE}
JOIN pg_index ON indrelid = pg_class.oid JOIN pg_class named ON named.oid = indexrelid
WHERE pg_class.relkind IN ('r', 'p', 'm') AND {OWN}
UNION ALL
SELECT 'constraint', format('%I.%I.%I', nspname, relname, conname),
    concat_ws(' ', CASE contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY'
            WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' WHEN 'x' THEN 'EXCLUDE'
            ELSE 'TRIGGER' END,
        (SELECT format('REFERENCES %I.%I', space.nspname, other.relname) FROM pg_class other
            JOIN pg_namespace space ON space.oid = other.relnamespace WHERE other.oid = confrelid),
        CASE WHEN NOT convalidated THEN 'NOT VALID' END)
FROM pg_class {_OF_TABLE} JOIN pg_constraint ON conrelid = pg_class.oid AND contype <> 'n'
WHERE {OWN}
UNION ALL
SELECT 'trigger', format('%I.%I.%I', nspname, relname, tgname),
    CASE tgenabled WHEN 'D' THEN 'DISABLED' ELSE '' END
FROM pg_class {_OF_TABLE} JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal
WHERE {OWN}
UNION ALL
SELECT 'function', format('%I.%I(%s)', nspname, proname, pg_get_function_identity_arguments(
    pg_proc.oid)), format_type(prorettype, NULL)
FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
WHERE {_NOT_OF_EXTENSION.format(table="pg_proc")}
UNION ALL
SELECT CASE typtype WHEN 'e' THEN 'enum' ELSE 'domain' END, format('%I.%I', nspname, typname),
    coalesce((SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum
        WHERE enumtypid = pg_type.oid), format_type(typbasetype, typtypmod))
FROM pg_type JOIN pg_namespace ON pg_namespace.oid = typnamespace
WHERE typtype IN ('d', 'e') AND {_NOT_OF_EXTENSION.format(table="pg_type")}
UNION ALL
SELECT 'extension', extname, '' FROM pg_extension
"""  # noqa: S608 - constants
# An index that SQLite has created for a constraint is named after its position among others, so it
# is listed as the constraint.
_SQLITE = f"""
WITH own AS (
    SELECT type, name, tbl_name FROM sqlite_master
    WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        AND NOT {IS_OF_FENCE}
), indexes AS (
    SELECT own.name AS table_name, found.name, "unique" AS is_unique, origin, partial,
        (SELECT group_concat(coalesce(name, 'expression'), ', ')
            FROM (SELECT name FROM pragma_index_info(found.name) ORDER BY seqno)) AS columns
    FROM own JOIN pragma_index_list(own.name) AS found WHERE own.type = 'table'
)
SELECT type, name, '' FROM own WHERE type IN ('table', 'view')
UNION ALL
SELECT 'column', own.name || '.' || found.name, upper(found.type)
    || CASE WHEN "notnull" THEN ' NOT NULL' ELSE '' END
    || CASE WHEN pk THEN ' PRIMARY KEY' ELSE '' END
    || CASE WHEN hidden IN (2, 3) THEN ' GENERATED' WHEN dflt_value IS NULL THEN '' ELSE ' DEFAULT'
        END
FROM own JOIN pragma_table_xinfo(own.name) AS found WHERE own.type = 'table'
UNION ALL
SELECT 'index', name, CASE WHEN is_unique THEN 'UNIQUE ' ELSE '' END
    || 'ON ' || table_name || ' (' || columns || ')' || CASE WHEN partial THEN ' WHERE' ELSE '' END
FROM indexes WHERE origin = 'c'
UNION ALL
SELECT 'constraint', table_name || ' (' || columns || ')',
    CASE origin WHEN 'pk' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END
FROM indexes WHERE origin <> 'c'
UNION ALL
SELECT 'constraint', own.name || '.' || "from", 'FOREIGN KEY REFERENCES ' || "table"
FROM own JOIN pragma_foreign_key_list(own.name) WHERE own.type = 'table'
UNION ALL
SELECT 'trigger', tbl_name || '.' || name, '' FROM own WHERE type = 'trigger'
"""  # noqa: S608 - constants

_LIMITED = "SELECT * FROM ({}) AS objects LIMIT {}"
LISTINGS = {
    engine: _LIMITED.format(query, OBJECTS_MAX + 1)
    for engine, query in (("postgresql", _POSTGRESQL), ("sqlite", _SQLITE))
}
"""For each engine, a query for the objects of a schema; without those of extensions."""


class SchemaTooLarge(Unavailable):
    """The schema has too many objects to be compared."""


class SchemaObject(NamedTuple):
    """A table, column, index, constraint and so on; *detail* has its type and properties."""

    kind: str
    name: str
    detail: str


class Difference(msgspec.Struct, frozen=True):
    """An object that two schemas do not have in common.

    Attributes:
        kind: The kind of object, such as ``table``, ``column`` or ``index``.
        name: Its name, with that of its table if it has one.
        expected: Its properties; None if there should be none.
        found: Its properties; None if there is none.
    """

    kind: str
    name: str
    expected: str | None
    found: str | None


def objects_in(rows: Sequence[Sequence[str]]) -> list[SchemaObject]:
    """Return the objects in the rows of a listing.

    Raises:
        SchemaTooLarge: There are more than `OBJECTS_MAX`.
    """
    if len(rows) > OBJECTS_MAX:
        raise SchemaTooLarge
    return [SchemaObject(*row) for row in rows]


def differences(
    expected: Iterable[SchemaObject], found: Iterable[SchemaObject]
) -> list[Difference]:
    """Return what differs between two schemas, sorted; texts are cut at `TEXT_CHARS_MAX`."""
    expected, found = set(expected), set(found)
    missing, extra = expected - found, found - expected
    # Objects of one name can be several: foreign keys of one column, overloaded functions.
    details: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for place, objects in enumerate((missing, extra)):
        for one in objects:
            details.setdefault((one.kind, one.name), ([], []))[place].append(one.detail)
    return [
        Difference(kind, name[:TEXT_CHARS_MAX], _joined(texts[0]), _joined(texts[1]))
        for (kind, name), texts in sorted(details.items())
    ]


def _joined(details: list[str]) -> str | None:
    return "; ".join(sorted(details))[:TEXT_CHARS_MAX] if details else None
