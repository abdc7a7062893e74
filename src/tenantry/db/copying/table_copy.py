"""Copy the rows of every table to a database with the same tables, of any engine, and compare them.

The target has the schema already, and no other process uses it. It is filled in one
transaction, which is committed after the comparison. Rows are read one by one, because a row may
be large. These functions block: call them in a thread.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from tenantry.db.copying.checksums import encode_row, row_hash
from tenantry.db.copying.row_values import Kind, decode_text
from tenantry.db.copying.table_plan import (
    NotCarried,
    PlannedTable,
    Row,
    converter,
    full_text_indexes,
    plan_tables,
)
from tenantry.db.copying.table_reading import OpenedDatabase, opened
from tenantry.db.postgres.session_settings import COPY_IN_TRANSACTION
from tenantry.db.sqlite import connections as sqlite
from tenantry.kit.errors import Conflict
from tenantry.kit.stopping import Stop

COUNTED_ROWS = 500
# Errors of rows, and not of a connection.
_OF_ROWS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.InsufficientPrivilege,
    sqlite3.IntegrityError,
)


class RowsDiffer(Conflict):
    """The rows of the copy are not those of the original; the message names the table."""


@dataclass
class _Sum:
    """The number of rows, and the sum of their hashes."""

    count: int = 0
    total: int = 0
    size: int = 0

    def add(self, row: tuple[Any, ...]) -> None:
        data = encode_row(row)
        self.count += 1
        self.size += len(data)
        self.total += row_hash(data)


def check(source: str, target: str, *, connect_seconds: float) -> None:
    """Check that every table and column of *source* has a counterpart in *target*.

    Raises:
        NotCarried: One has none.
        DatabaseUnavailable: A database cannot be read.
    """
    with _both(source, target, connect_seconds, Stop()) as (here, there):
        plan_tables(here.connection, there.connection)


def copy_rows(
    source: str,
    target: str,
    *,
    connect_seconds: float,
    count: Callable[[int], None],
    stop: Stop,
) -> None:
    """Replace every row of *target* with those of one snapshot of *source*, and compare them.

    Args:
        source: The URL of the database.
        target: The URL of one with the same tables.
        connect_seconds: How long to wait for a connection.
        count: Called with the bytes of some rows.
        stop: Ends the copy early; the target is then unchanged.

    Raises:
        NotCarried: A table, a column or a value has no counterpart.
        RowsDiffer: A row of the target is not the same: a trigger has changed it, for example.
        DatabaseUnavailable: A database cannot be read or written.
        Stopped: *stop* was set.
    """
    with _both(source, target, connect_seconds, stop) as (here, there):
        tables = plan_tables(here.connection, there.connection)
        write = _fill_file if there.is_file else _fill_server
        with write(there, tables) as insert:
            numbers = _last_numbers(here, tables)
            for table in tables:
                row_kind = converter(table, here.connection.dialect, there.connection.dialect)
                with _naming(table):
                    expected = _copy_table(here, row_kind, insert=insert, count=count, stop=stop)
                    found = _sum_of(there, row_kind, stop)
                if (found.count, found.total) != (expected.count, expected.total):
                    raise RowsDiffer(
                        f"The copy of {table.name} differs: it has {found.count} rows, and the "
                        f"original {expected.count}."
                    )
            _set_last_numbers(there, tables, numbers)


@contextmanager
def _both(
    source: str, target: str, connect_seconds: float, stop: Stop
) -> Iterator[tuple[OpenedDatabase, OpenedDatabase]]:
    open_one = partial(opened, connect_seconds=connect_seconds, text_factory=decode_text)
    with open_one(source, stop) as here, open_one(target, stop, is_read_only=False) as there:
        try:
            yield here, there
        except _OF_ROWS as error:
            raise NotCarried(
                "The data cannot be carried over: a row cannot be read or written "
                f"({_kind(error)})."
            ) from error


@contextmanager
def _naming(table: PlannedTable) -> Iterator[None]:
    """Name the table in errors of its rows, and the column if the server names it."""
    try:
        yield
    except _OF_ROWS as error:
        # A function in the database can set this field to a value of a row.
        column = getattr(getattr(error, "diag", None), "column_name", None)
        where = f"{table.name}.{column}" if column in table.columns else f"the table {table.name}"
        raise NotCarried(
            f"The data cannot be carried over: a row of {where} cannot be read or written "
            f"({_kind(error)})."
        ) from error


def _kind(error: Exception) -> str:
    """Return the kind of an error. Its message can contain a value of a row."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))


def _copy_table(
    here: OpenedDatabase,
    row_kind: Row,
    *,
    insert: Callable[[PlannedTable, Iterator[tuple[Any, ...]]], None],
    count: Callable[[int], None],
    stop: Stop,
) -> _Sum:
    found = _Sum()

    def converted() -> Iterator[tuple[Any, ...]]:
        counted = 0
        for row in _rows(here, row_kind.table):
            try:
                values, compared = row_kind.converted(row)
            except NotCarried as error:
                raise NotCarried(f"{error.message}{_place(here, row_kind, found.count)}") from error
            found.add(compared)
            yield values
            if not found.count % COUNTED_ROWS:
                stop.check()
                count(found.size - counted)
                counted = found.size
        count(found.size - counted)

    insert(row_kind.table, converted())
    return found


def _place(side: OpenedDatabase, row_kind: Row, number: int) -> str:
    """Return where the row *number* of a SQLite table is, without a value of it."""
    if not side.is_file:
        return ""
    # With the same columns, the rows are read in the same order.
    columns = ", ".join(map(sqlite.quoted, row_kind.table.columns))
    query = f"SELECT {columns}, _rowid_ FROM {sqlite.quoted(row_kind.table.name)} LIMIT 1 OFFSET ?"  # noqa: S608
    try:
        return f" It is the row with the rowid {side.raw.execute(query, (number,)).fetchone()[-1]}."
    except sqlite3.OperationalError:  # WITHOUT ROWID
        return f" It is the row {number + 1:,} of the table."


def _sum_of(there: OpenedDatabase, row_kind: Row, stop: Stop) -> _Sum:
    found = _Sum()
    for row in _rows(there, row_kind.table):
        if not found.count % COUNTED_ROWS:
            stop.check()
        found.add(row_kind.compared(row))
    return found


def _rows(side: OpenedDatabase, table: PlannedTable) -> Iterator[Any]:
    kinds = zip(table.columns, table.kinds, strict=True)
    of_json = [] if side.is_file else [name for name, kind in kinds if kind.kind is Kind.JSON]
    return side.rows(table.name, table.columns, as_text=of_json)


@contextmanager
def _fill_file(side: OpenedDatabase, tables: list[PlannedTable]) -> Iterator[Callable[..., None]]:
    raw = side.raw
    triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        raw.execute(f"DROP TRIGGER {sqlite.quoted(name)}")
    for table in tables:
        raw.execute(f"DELETE FROM {sqlite.quoted(table.name)}")  # noqa: S608 - quoted

    def insert(table: PlannedTable, rows: Iterator[tuple[Any, ...]]) -> None:
        columns = ", ".join(map(sqlite.quoted, table.columns))
        places = ", ".join("?" * len(table.columns))
        raw.executemany(
            f"INSERT INTO {sqlite.quoted(table.name)} ({columns}) VALUES ({places})",  # noqa: S608
            rows,
        )

    yield insert
    for name in map(sqlite.quoted, full_text_indexes(side.connection)):
        raw.execute(f"INSERT INTO {name} ({name}) VALUES ('rebuild')")  # noqa: S608 - quoted
    for _, text in triggers:
        raw.execute(text)
    if raw.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise NotCarried("The data cannot be carried over: a row refers to one that is missing.")
    raw.execute("COMMIT")


@contextmanager
def _fill_server(side: OpenedDatabase, tables: list[PlannedTable]) -> Iterator[Callable[..., None]]:
    raw = side.raw
    names = [sql.Identifier(table.name) for table in tables]
    raw.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
    for name in names:
        raw.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(name))

    def insert(table: PlannedTable, rows: Iterator[tuple[Any, ...]]) -> None:
        query = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
        )
        with raw.cursor() as cursor, cursor.copy(query) as copying:
            for row in rows:
                copying.write_row(row)

    yield insert
    # A table with deferred checks that are not done yet cannot be altered.
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for name in names:
        raw.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(name))
    raw.commit()
    raw.execute(f"{COPY_IN_TRANSACTION}; ANALYZE")
    raw.commit()


def _last_numbers(side: OpenedDatabase, tables: list[PlannedTable]) -> dict[str, int]:
    """Return the last number that each table has given to a row, which may be deleted."""
    if side.is_file:
        if not side.raw.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"
        ).fetchone():
            return {}
        return dict(side.raw.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    found = {}
    for table, _, sequence in _sequences(side, tables):
        last, is_called = side.raw.execute(
            sql.SQL("SELECT last_value, is_called FROM {}").format(sql.SQL(sequence))
        ).fetchone()
        if is_called:
            found[table.name] = int(last)
    return found


def _set_last_numbers(
    side: OpenedDatabase, tables: list[PlannedTable], numbers: Mapping[str, int]
) -> None:
    if side.is_file:
        names = {table.name for table in tables}
        for name, number in numbers.items():
            if name in names and _has_autoincrement(side, name):
                side.raw.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
                side.raw.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, number))
        return
    for table, column, sequence in _sequences(side, tables):
        (highest,) = side.raw.execute(
            sql.SQL("SELECT max({}) FROM {}").format(
                sql.Identifier(column), sql.Identifier(table.name)
            )
        ).fetchone()
        number = max(highest or 0, numbers.get(table.name, 0))
        if number > 0:
            side.raw.execute("SELECT setval(%s::regclass, %s)", (sequence, number))


def _has_autoincrement(side: OpenedDatabase, table: str) -> bool:
    (text,) = side.raw.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    return "AUTOINCREMENT" in text.upper()


def _sequences(
    side: OpenedDatabase, tables: list[PlannedTable]
) -> Iterator[tuple[PlannedTable, str, str]]:
    """Yield the columns with a sequence, and its name, quoted."""
    for table in tables:
        for column, kind in zip(table.columns, table.kinds, strict=True):
            if kind.kind is Kind.INTEGER:
                (name,) = side.raw.execute(
                    "SELECT pg_get_serial_sequence(quote_ident(%s), %s)", (table.name, column)
                ).fetchone()
                if name is not None:
                    yield table, column, str(name)
