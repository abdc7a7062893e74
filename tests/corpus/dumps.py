"""Everything that a database holds, in lines that can be compared, but for what is Tenantry's."""

import contextlib
import sqlite3
from collections.abc import Collection, Iterable

import psycopg
from psycopg import sql

from tenantry.db.urls import sqlite_path

_NAMESPACE = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_OURS = "NOT LIKE '%tenantry\\_%'"
_PG_CATALOG = {
    "schema": f"""
        SELECT nspname, nspacl::text, obj_description(oid, 'pg_namespace')
        FROM pg_namespace n WHERE {_NAMESPACE}
    """,
    "relation": f"""
        SELECT nspname, relname, relkind, relpersistence, reloptions::text, relacl::text,
            relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner),
            pg_get_expr(relpartbound, c.oid), pg_get_partkeydef(c.oid), relreplident,
            obj_description(c.oid, 'pg_class'),
            (SELECT string_agg(inhparent::regclass::text, ',') FROM pg_inherits
             WHERE inhrelid = c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE {_NAMESPACE} AND relname {_OURS}
    """,
    "column": f"""
        SELECT nspname, relname, attname, format_type(atttypid, atttypmod), attnotnull,
            attidentity, attgenerated, pg_get_expr(adbin, adrelid), collname, attstorage,
            attstattarget::text, attacl::text, col_description(c.oid, attnum),
            row_number() OVER (PARTITION BY c.oid ORDER BY attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
        JOIN pg_namespace n ON n.oid = relnamespace
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation k ON k.oid = attcollation
        WHERE {_NAMESPACE} AND relname {_OURS} AND attnum > 0 AND NOT attisdropped
    """,
    "constraint": f"""
        SELECT nspname, conrelid::regclass::text, contypid::regtype::text, conname, contype,
            condeferrable, condeferred, convalidated, pg_get_constraintdef(o.oid),
            obj_description(o.oid, 'pg_constraint')
        FROM pg_constraint o JOIN pg_namespace n ON n.oid = connamespace
        WHERE {_NAMESPACE} AND conrelid::regclass::text {_OURS}
    """,
    "index": f"""
        SELECT pg_get_indexdef(i.indexrelid), indisvalid, indisready, indisclustered, indisreplident
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_namespace n ON n.oid = relnamespace
        WHERE {_NAMESPACE} AND relname {_OURS}
    """,
    "view": f"""
        SELECT nspname, relname, pg_get_viewdef(c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE {_NAMESPACE} AND relkind IN ('v', 'm')
    """,
    "sequence": f"""
        SELECT nspname, relname, seqtypid::regtype::text, seqstart, seqincrement, seqmax, seqmin,
            seqcache, seqcycle, (SELECT string_agg(refobjid::regclass || '.' || refobjsubid, ',')
             FROM pg_depend d WHERE d.objid = c.oid AND deptype IN ('a', 'i') AND refobjsubid > 0)
        FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
        JOIN pg_namespace n ON n.oid = relnamespace WHERE {_NAMESPACE} AND relname {_OURS}
    """,
    "function": f"""
        SELECT nspname, p.oid::regprocedure::text, prokind,
            CASE WHEN prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) END,
            obj_description(p.oid, 'pg_proc')
        FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
        WHERE {_NAMESPACE} AND NOT EXISTS (
            SELECT FROM pg_depend WHERE objid = p.oid AND deptype = 'e')
    """,
    "trigger": f"""
        SELECT pg_get_triggerdef(t.oid), tgenabled FROM pg_trigger t
        WHERE NOT tgisinternal AND tgrelid::regclass::text {_OURS}
    """,
    "type": f"""
        SELECT nspname, typname, typtype, format_type(typbasetype, typtypmod), typnotnull,
            typdefault, obj_description(t.oid, 'pg_type')
        FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
        WHERE {_NAMESPACE} AND typname NOT LIKE '%tenantry\\_%'
    """,
    "label": """
        SELECT enumtypid::regtype::text, enumlabel,
            row_number() OVER (PARTITION BY enumtypid ORDER BY enumsortorder)
        FROM pg_enum
    """,
    "rule": f"""
        SELECT schemaname, tablename, rulename, definition FROM pg_rules
        JOIN pg_namespace n ON nspname = schemaname WHERE {_NAMESPACE}
    """,
    "policy": "SELECT schemaname, tablename, policyname, roles::text, cmd, qual, with_check "
    "FROM pg_policies",
    "extension": "SELECT extname, extversion FROM pg_extension",
    "event trigger": "SELECT evtname, evtevent, evtenabled FROM pg_event_trigger",
    "publication": "SELECT pubname, puballtables, pubinsert FROM pg_publication",
    "statistics": "SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext",
    "large object": "SELECT encode(lo_get(oid), 'hex') FROM pg_largeobject_metadata",
    "setting of the database": """
        SELECT setconfig::text FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
        WHERE datname = current_database()
    """,
    "of the database": """
        SELECT datacl::text, shobj_description(oid, 'pg_database') FROM pg_database
        WHERE datname = current_database()
    """,
    "prepared transaction": "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()",
}
_PG_TABLES = f"""
    SELECT nspname, relname, coalesce(array_agg(attname ORDER BY attnum)
        FILTER (WHERE attnum > 0 AND NOT attisdropped), '{{}}')::text[]
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    LEFT JOIN pg_attribute ON attrelid = c.oid
    WHERE {_NAMESPACE} AND relname {_OURS} AND relkind IN ('r', 'm')
        AND (relkind = 'r' OR relispopulated)
    GROUP BY 1, 2 ORDER BY 1, 2
"""
_PG_SEQUENCES = f"""
    SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE {_NAMESPACE} AND relname {_OURS} AND relkind = 'S'
    ORDER BY 1, 2
"""


def dump(url: str, varies: Collection[str] = ()) -> list[str]:
    """Return all that the database at *url* holds.

    Args:
        url: Of the database.
        varies: Columns, as ``table.column``, of which only the pattern of equal values counts.
    """
    path = sqlite_path(url)
    if path is None:
        return _dump_postgresql(url, varies)
    return _dump_sqlite(str(path), varies)


def _dump_postgresql(url: str, varies: Collection[str]) -> list[str]:
    lines: list[str] = []
    with psycopg.connect(
        url, autocommit=True, options="-c TimeZone=UTC -c search_path=public"
    ) as connection:
        for kind, query in _PG_CATALOG.items():
            lines += sorted(f"{kind}: {row!r}" for row in connection.execute(query.encode()))
        for schema, name in connection.execute(_PG_SEQUENCES.encode()).fetchall():
            state = sql.SQL("SELECT last_value, is_called FROM {}").format(
                sql.Identifier(schema, name)
            )
            lines.append(f"state of {schema}.{name}: {connection.execute(state).fetchone()!r}")
        for schema, name, columns in connection.execute(_PG_TABLES.encode()).fetchall():
            texts = sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(column)) for column in columns
            )
            found = connection.execute(
                sql.SQL("SELECT {} FROM ONLY {}").format(texts, sql.Identifier(schema, name))
            ).fetchall()
            where = name if schema == "public" else f"{schema}.{name}"
            lines += _rows(where, columns, found, varies)
    return lines


def _dump_sqlite(path: str, varies: Collection[str]) -> list[str]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        lines = [
            f"{kind}: {name} of {table}: {text}"
            for kind, name, table, text in file.execute(
                "SELECT type, name, tbl_name, sql FROM sqlite_master "
                "WHERE tbl_name NOT LIKE 'tenantry\\_%' ESCAPE '\\' ORDER BY 1, 2"
            )
        ]
        lines += [
            f"{pragma}: {file.execute(f'PRAGMA {pragma}').fetchall()!r}"
            for pragma in ("user_version", "application_id", "foreign_key_check")
        ]
        tables = file.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' "
            "AND name NOT LIKE 'tenantry\\_%' ESCAPE '\\' ORDER BY 1"
        ).fetchall()
        for (name,) in tables:
            listed = file.execute("SELECT name FROM pragma_table_xinfo(?)", (name,))
            columns = [column for (column,) in listed]
            texts = ", ".join(f"quote({_quoted(column)})" for column in columns)
            found = [
                tuple(None if one == "NULL" else one for one in row)
                for row in file.execute(f"SELECT {texts} FROM {_quoted(name)}")
            ]
            if name == "sqlite_sequence":
                found = [row for row in found if "tenantry_" not in str(row[0])]
            lines += _rows(name, columns, found, varies)
        return lines


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rows(
    table: str,
    columns: Iterable[str],
    rows: Iterable[tuple[str | None, ...]],
    varies: Collection[str],
) -> list[str]:
    masked = [f"{table}.{column}" in varies for column in columns]

    def known(row: tuple[str | None, ...]) -> str:
        return repr([None if mask else one for one, mask in zip(row, masked, strict=True)])

    names: dict[str, str] = {}
    lines = []
    for row in sorted(rows, key=known):
        shown = tuple(
            names.setdefault(one, f"<{len(names)}>") if mask and one is not None else one
            for one, mask in zip(row, masked, strict=True)
        )
        lines.append(f"row of {table}: {shown!r}")
    return lines
