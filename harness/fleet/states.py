"""A snapshot of a tenant's database: its content, and its log."""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from tenantry.db.urls import sqlite_path

LOG = "tenantry_migration_log"
LOCK_SECONDS_MAX = 30
# In the order of the log.
READ_LOG = f"SELECT run_id, revision FROM {LOG} WHERE stream = 'user' ORDER BY position"
# The snapshot must be consistent, but PostgreSQL's catalog tables are not part of a transaction's
# snapshot. So the tables are locked first; the snapshot is taken by the first query.
PG_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS_MAX}s'",
    "LOCK TABLE tenantry_version, alembic_version, article IN ACCESS SHARE MODE",
)
PG_SCHEMA = """
SELECT c.relname, c.relkind::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    pg_get_expr(d.adbin, d.adrelid), CASE c.relkind WHEN 'i' THEN pg_get_indexdef(c.oid) END
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1, 3
"""
PG_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
)
FILE_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"
FILE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"

Rows = Sequence[tuple[Any, ...]]
Query = Callable[[str], Rows]


@dataclass(frozen=True)
class State:
    """A snapshot of a database.

    Attributes:
        content: A digest of its schema and of every row, except the log.
        log: The runs and the user revisions that they applied, in order.
    """

    content: str
    log: Sequence[tuple[UUID, str]]

    def applied_by(self, run_id: UUID) -> str | None:
        """Return what the run has applied, as in the history of a success."""
        return ",".join(name for by, name in self.log if by == run_id) or None


def read_state(url: str) -> State:
    """Return the state of the database at *url*, which may be in use."""
    path = sqlite_path(url)
    if path is not None:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=30)) as file:
            file.execute("BEGIN")  # in WAL mode, a read transaction is a snapshot
            return _read_file(lambda sql: file.execute(sql).fetchall())
    with psycopg.connect(url, autocommit=True) as connection:
        for sql in PG_BEGIN:
            connection.execute(sql.encode())
        return _read_database(lambda sql: connection.execute(sql.encode()).fetchall())


def _read_file(query: Query) -> State:
    names = [name for (name,) in query(FILE_TABLES) if name != LOG]
    rows = [(name, *row) for name in names for row in query(f'SELECT * FROM "{name}"')]
    return _state(query, query(FILE_SCHEMA), rows)


def _read_database(query: Query) -> State:
    names = [name for (name,) in query(PG_TABLES) if name != LOG]
    # In one statement, because there are many tables and many databases.
    each = [f"""SELECT '{name}', t::text FROM "{name}" AS t""" for name in names]
    return _state(query, query(PG_SCHEMA), query(" UNION ALL ".join(each)))


def _state(query: Query, schema: Rows, rows: Rows) -> State:
    content = "\n".join([repr(schema), *sorted(map(repr, rows))])
    log = [(UUID(str(run_id)), revision) for run_id, revision in query(READ_LOG)]
    return State(hashlib.sha256(content.encode()).hexdigest(), log)
