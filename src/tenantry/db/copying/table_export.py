"""Export the tables of a database: a file with the rows of each, and a description of them.

The export is one snapshot, and neither waits for writers nor blocks them. Values are those that
the database returns, without types of SQLAlchemy: a SQLite file may hold any value in any column.
In memory are one row, its encoded form, and `BYTES_AT_ONCE`.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import sqlalchemy as sa
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types import datetime as times

from tenantry.db.copying.row_formats import RowFormat, encoder_of, head_of
from tenantry.db.copying.table_reading import OpenedDatabase, opened
from tenantry.kit.errors import Conflict
from tenantry.kit.stopping import Stop
from tenantry.kit.zip_stream import OpenNew

BYTES_AT_ONCE = 65_536
"""Encoded rows are written when they have this many bytes."""
# A value that a driver cannot read, or that JSON cannot hold.
_INVALID = (psycopg.DataError, sqlite3.DataError, UnicodeError, OverflowError, RecursionError)
_FILE_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_INTERNAL = re.compile(r"pg_.*|information_schema")


def _or_text(loader: type[Loader]) -> type[Loader]:
    """Return a loader that returns a value as text if Python has no such time: 'infinity'."""

    class OrText(loader):  # type: ignore[valid-type,misc]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return OrText


_TIMES = {
    "date": _or_text(times.DateLoader),
    "timestamp": _or_text(times.TimestampLoader),
    "timestamptz": _or_text(times.TimestamptzLoader),
}


class NotExportable(Conflict):
    """A value cannot be exported; the message names the table and the reason."""


class ExportedColumn(msgspec.Struct, frozen=True, rename="camel"):
    """A column, with its type in the database. A column that is left out is in no row."""

    name: str
    type: str
    nullable: bool
    is_left_out: bool = False


class ExportedTable(msgspec.Struct, frozen=True, rename="camel"):
    """A table, and the file with its rows.

    Attributes:
        schema: On PostgreSQL; None on SQLite.
        foreign_keys: Each with ``columns``, ``table`` and ``referredColumns``.
    """

    schema: str | None
    name: str
    file: str
    rows: int
    columns: list[ExportedColumn]
    primary_key: list[str]
    foreign_keys: list[dict[str, object]]


def export_tables(
    url: str,
    open_new: OpenNew,
    *,
    row_format: RowFormat,
    left_out: Callable[[str], frozenset[str] | None],
    connect_seconds: float,
    stop: Stop,
) -> list[ExportedTable]:
    """Write the rows of every table into a file; return the tables.

    Args:
        url: Of the database.
        open_new: Opens the file; the export writes one after another.
        row_format: Of the files.
        left_out: Returns, for the name of a table, the columns that are not exported; None for a
            table that is not exported at all.
        connect_seconds: How long to wait for the connection.
        stop: Ends the export early.

    Raises:
        Stopped: *stop* was set.
        NotExportable: JSON cannot hold a value, or it is invalid; or the role may not read a table.
        DatabaseUnavailable: The database cannot be read.
    """
    exported: list[ExportedTable] = []
    with opened(url, stop, connect_seconds=connect_seconds, loaders=_TIMES) as database:
        inspector = sa.inspect(database.connection)
        for schema, name in sorted(_tables(inspector), key=lambda one: (one[0] or "", one[1])):
            omitted = left_out(name)
            if omitted is None:
                continue
            stem = name if _FILE_NAME.fullmatch(name) else "table"
            # The number makes it unique: names may differ in their case, or in their schema.
            file = f"{len(exported) + 1:04}-{stem}.{row_format}"
            table = _described(inspector, schema, name, omitted, file=file)
            try:
                rows = _write_rows(database, table, open_new, row_format, stop)
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotExportable(
                    f"The table {name} cannot be read: a privilege is missing, or a policy of "
                    "row-level security hides rows."
                ) from error
            exported.append(msgspec.structs.replace(table, rows=rows))
    return exported


def _tables(inspector: sa.Inspector) -> Iterator[tuple[str | None, str]]:
    if inspector.dialect.name == "sqlite":
        yield from ((None, name) for name in inspector.get_table_names())
        return
    for schema in inspector.get_schema_names():
        if not _INTERNAL.fullmatch(schema):
            yield from ((schema, name) for name in inspector.get_table_names(schema))


def _described(
    inspector: sa.Inspector, schema: str | None, name: str, omitted: frozenset[str], *, file: str
) -> ExportedTable:
    return ExportedTable(
        schema=schema,
        name=name,
        file=file,
        rows=0,
        columns=[
            ExportedColumn(
                column["name"],
                _type_name(column["type"], inspector.dialect),
                column["nullable"],
                column["name"] in omitted,
            )
            for column in inspector.get_columns(name, schema)
        ],
        primary_key=inspector.get_pk_constraint(name, schema)["constrained_columns"],
        foreign_keys=[
            {
                "columns": key["constrained_columns"],
                "table": key["referred_table"],
                "referredColumns": key["referred_columns"],
            }
            for key in inspector.get_foreign_keys(name, schema)
        ],
    )


def _type_name(type_: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> str:
    # A type that SQLAlchemy does not know, or a column of SQLite without a type.
    return "unknown" if isinstance(type_, sa.types.NullType) else type_.compile(dialect)


def _write_rows(
    database: OpenedDatabase,
    table: ExportedTable,
    open_new: OpenNew,
    row_format: RowFormat,
    stop: Stop,
) -> int:
    names = [column.name for column in table.columns if not column.is_left_out]
    encode, count = encoder_of(row_format, names), 0
    buffer = bytearray(head_of(row_format, names))
    with (
        open_new(table.file) as file,
        closing(database.rows(table.name, names, schema=table.schema)) as rows,
    ):
        try:
            for row in rows:
                stop.check()
                buffer += encode(row)
                count += 1
                if len(buffer) >= BYTES_AT_ONCE:
                    file.write(buffer)
                    buffer.clear()
        except _INVALID as error:
            raise NotExportable(
                f"The table {table.name} has an invalid value after row {count}: "
                f"{_reason(error)}. Correct it, and repeat the export."
            ) from error
        file.write(buffer)
    return count


def _reason(error: Exception) -> str:
    # Of the messages of libraries only the kind is used: they contain the value.
    if isinstance(error, UnicodeError):
        return "text that is not valid Unicode"
    if isinstance(error, OverflowError):
        return "a number that is too large"
    return "JSON that is nested too deeply" if isinstance(error, RecursionError) else "bad data"
