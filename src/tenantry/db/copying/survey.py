"""What a database contains: the rows of each table, and a fingerprint of its schema.

A copy is compared with its source by these. The fingerprint on PostgreSQL leaves out expressions,
because a server writes some of them differently after a restore.
"""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import msgspec

from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import connections as sqlite
from tenantry.db.write_fence import IS_OF_FENCE

SQLITE_TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
ORDER BY name
"""
# Without a write fence, which is no part of the schema.
_SQLITE_SCHEMA = f"""
SELECT type, name, tbl_name, sql FROM sqlite_master
WHERE NOT {IS_OF_FENCE} ORDER BY type, name
"""  # noqa: S608 - constants

# Without what belongs to the system, to a session or to an extension.
OWN = """
nspname <> 'information_schema' AND NOT pg_catalog.starts_with(nspname, 'pg_')
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
        AND objid = pg_class.oid AND deptype = 'e')
"""
POSTGRES_TABLES = f"""
SELECT pg_catalog.format('%I.%I', nspname, relname) FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'r' AND {OWN} ORDER BY 1
"""  # noqa: S608 - constants
# In the order of the columns, not by their numbers: a restore closes the gaps of dropped ones.
_SCHEMA = f"""
SELECT 'column', nspname, relname, relkind::text, attname,
    pg_catalog.format_type(atttypid, atttypmod), attnotnull::text,
    (pg_catalog.rank() OVER (PARTITION BY pg_class.oid ORDER BY attnum))::text
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND {OWN}
UNION ALL
SELECT 'index', nspname, pg_class.relname, named.relname, indisunique::text, '', '', ''
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_index ON indrelid = pg_class.oid JOIN pg_class named ON named.oid = indexrelid
WHERE {OWN}
UNION ALL
SELECT 'constraint', nspname, relname, conname, contype::text, '', '', ''
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_constraint ON conrelid = pg_class.oid AND contype <> 'n'
WHERE {OWN}
UNION ALL
SELECT 'trigger', nspname, relname, tgname, '', '', '', ''
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal
WHERE {OWN}
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Survey:
    """What a database contains.

    Attributes:
        row_counts: By table; on PostgreSQL with its schema.
        schema_fingerprint: A SHA-256 in hex.
    """

    row_counts: dict[str, int]
    schema_fingerprint: str


@contextmanager
def reading(path: Path, *, is_private: bool) -> Iterator[sqlite3.Connection]:
    """Read one snapshot of a file, which can come from elsewhere. Blocks.

    Args:
        path: The file.
        is_private: Whether no other process has the file open; then no files are added to it.

    Raises:
        DatabaseUnavailable: It cannot be read.
    """
    uri = sqlite.file_uri(path, "mode=ro&immutable=1" if is_private else "mode=ro")
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as raw:
            # Functions and virtual tables in the schema of the file run nothing unsafe.
            raw.execute("PRAGMA trusted_schema = OFF")
            raw.execute("BEGIN")
            yield raw
    except sqlite3.Error as error:
        raise DatabaseUnavailable from error


def survey_sqlite(path: Path, *, is_private: bool) -> Survey:
    """Count the rows of a file in one snapshot; see `reading`."""
    with reading(path, is_private=is_private) as raw:
        names = [str(row[0]) for row in raw.execute(SQLITE_TABLES)]
        counts = {name: _count(raw, name) for name in names}
        return Survey(counts, _fingerprint(raw.execute(_SQLITE_SCHEMA).fetchall()))


async def survey_postgres(raw: "asyncpg.Connection[asyncpg.Record]") -> Survey:
    """Count the rows of a database in the transaction of *raw*.

    Raises:
        Exception: Any error of the driver.
    """
    tables = [str(row[0]) for row in await raw.fetch(POSTGRES_TABLES)]
    counts = {
        table: int(await raw.fetchval(f"SELECT count(*) FROM {table}", timeout=None))  # noqa: S608
        for table in tables
    }
    rows = sorted(tuple(row) for row in await raw.fetch(_SCHEMA))
    return Survey(counts, _fingerprint(rows))


def explain_difference(found: Survey, expected: Survey) -> str:
    """Return a sentence about the first table that differs."""
    names = sorted({*found.row_counts, *expected.row_counts})
    differing = [
        name for name in names if found.row_counts.get(name) != expected.row_counts.get(name)
    ]
    if not differing:
        return "The copy has other columns, indexes or constraints than the original."
    first = differing[0]
    return (
        f"The copy has {found.row_counts.get(first, 0)} rows in {first}, and the original "
        f"{expected.row_counts.get(first, 0)}."
    )


def _count(raw: sqlite3.Connection, table: str) -> int:
    query = f"SELECT count(*) FROM {sqlite.quoted(table)}"  # noqa: S608 - a quoted name
    return int(raw.execute(query).fetchone()[0])


def _fingerprint(rows: object) -> str:
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


def check_sqlite(path: Path) -> None:
    """Check the structure of a file that comes from elsewhere, and that no process has open.

    Raises:
        DatabaseUnavailable: It is damaged, or not a SQLite file.
    """
    with reading(path, is_private=True) as raw:
        if raw.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise DatabaseUnavailable
