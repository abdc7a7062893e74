"""SQL on databases without the product's code, over other drivers."""

import asyncio
import contextlib
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tenantry.db.urls import sqlite_path
from testkit.postgres import find_binaries

# A busy process holds the lock of a file for seconds on a busy machine.
LOCK_SECONDS_MAX = 60.0
LOG = "tenantry_migration_log"  # when, and in which run: of no interest to a comparison

_PG_SCHEMA = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
ORDER BY 1, 2, 3
"""
_SQLITE_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"


def error_in_sqlite(*statements: str) -> sqlite3.Error:
    """Return the error of the first of *statements* that fails in an empty database."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        try:
            for sql in statements:
                file.execute(sql)
        except sqlite3.Error as error:
            return error
    raise AssertionError(statements)


@dataclass(frozen=True)
class Dump:
    """The schema and the data of a database, without its log."""

    schema: list[tuple[Any, ...]]
    data: dict[str, list[tuple[Any, ...]]]


Query = Callable[[str], list[tuple[Any, ...]]]


@contextlib.contextmanager
def connected(url: str) -> Iterator[Query]:
    """Yield a function that executes a statement, in autocommit, and returns its rows."""
    path = sqlite_path(url)
    if path is not None:
        name, wait = f"file:{path}?mode=rw", LOCK_SECONDS_MAX
        file = sqlite3.connect(name, uri=True, isolation_level=None, timeout=wait)
        with contextlib.closing(file):
            yield lambda sql: file.execute(sql).fetchall()
        return
    with psycopg.connect(url, autocommit=True) as connection:

        def query(sql: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

        yield query


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connected(url) as query:
        return query(sql)


def run(url: str, *statements: str) -> None:
    """Execute *statements*, each in autocommit."""
    with connected(url) as query:
        for sql in statements:
            query(sql)


def refuse_updates(url: str, table: str, condition: str) -> None:
    """Let a trigger of *table* refuse each update to a row for which *condition* holds."""
    name = f"refuse_{table}"
    trigger = f"CREATE TRIGGER {name} BEFORE UPDATE ON {table}"
    if sqlite_path(url) is not None:
        run(url, f"{trigger} WHEN {condition} BEGIN SELECT RAISE(ABORT, 'refused'); END")
        return
    run(
        url,
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$""",
        f"{trigger} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION {name}()",
    )


def tables(url: str) -> set[str]:
    """Return the names of the tables."""
    with connected(url) as query:
        return _tables(query, is_file=sqlite_path(url) is not None)


def columns(url: str, table: str) -> list[str]:
    """Return the names of a table's columns."""
    if sqlite_path(url) is None:
        sql = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
    else:
        sql = f"SELECT name FROM pragma_table_info('{table}')"
    return [name for (name,) in rows(url, sql)]


def dump(url: str) -> Dump:
    """Return everything."""
    is_file = sqlite_path(url) is not None
    text = "*" if is_file else "to_jsonb(t)::text"
    with connected(url) as query:
        return Dump(
            query(_SQLITE_SCHEMA if is_file else _PG_SCHEMA),
            {
                name: sorted(query(f'SELECT {text} FROM "{name}" AS t'), key=repr)
                for name in sorted(_tables(query, is_file=is_file) - {LOG})
            },
        )


def written(url: str, *, without: str = LOG) -> str:
    """Return schema and data as the engine's own tool writes them.

    Args:
        url: Of the database.
        without: The beginning of the names of tables that are left out.
    """
    path = sqlite_path(url)
    if path is not None:
        with contextlib.closing(sqlite3.connect(path)) as file:
            lines = list(file.iterdump())
    else:
        command = [find_binaries() / "pg_dump", "--no-owner", f"--exclude-table={without}*", url]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        # Newer releases write a random word, for psql.
        lines = [line for line in done.stdout.splitlines() if not line.startswith("\\")]
    return "\n".join(line for line in lines if without not in line)


def _tables(query: Query, *, is_file: bool) -> set[str]:
    if is_file:
        found = query("SELECT name FROM sqlite_master WHERE type = 'table'")
    else:
        found = query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {name for (name,) in found}


class Raw:
    """Direct access to a database, to read it or to break it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = sqlite_path(url)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield a connection on which every statement commits by itself."""
        if self.path is not None:
            connection: Any = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None
            )
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        with contextlib.closing(connection):
            yield connection

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run *sql*, with ``?`` for each value, and return its rows."""
        if self.path is None:
            sql = sql.replace("?", "%s")
        else:
            values = tuple(one.hex if isinstance(one, UUID) else one for one in values)
        with self.connect() as connection:
            cursor = connection.execute(sql, values)
            return list(cursor.fetchall()) if cursor.description else []

    async def write(self, sql: str, *values: object) -> None:
        """Run *sql* without stopping the event loop, whose own transaction may hold the lock."""
        await asyncio.to_thread(self.run, sql, *values)

    def multiply(self, table: str, copies: int, **changed: str) -> None:
        """Copy each row of a table so many times.

        Args:
            table: The table.
            copies: How many copies.
            changed: The SQL of the columns that differ; ``i`` is the number of the copy.
        """
        names = columns(self.url, table)
        self.run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
            f"{copies}) INSERT INTO {table} ({', '.join(names)}) "
            f"SELECT {', '.join(changed.get(name, name) for name in names)} FROM {table}, n"
        )

    def tables(self) -> set[str]:
        if self.path is not None:
            return {row[0] for row in self.run("SELECT name FROM sqlite_master WHERE type='table'")}
        return {
            row[0] for row in self.run("SELECT tablename FROM pg_tables WHERE schemaname='public'")
        }

    def dump(self) -> str:
        """Return every row of every table, as text."""
        return "\n".join(
            repr([bytes(one) if isinstance(one, memoryview) else one for one in row])
            for table in sorted(self.tables())
            for row in self.run(f'SELECT * FROM "{table}"')
        )

    def destroy(self) -> None:
        """Delete the database."""
        if self.path is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            return
        server, _, name = self.url.rpartition("/")
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
