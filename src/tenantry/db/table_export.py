"""Export the tables of a database: a file with one JSON object for each row, and the schema.

The export is one snapshot, and neither waits for writers nor blocks them. Values are those that
the database returns, without types of SQLAlchemy: a SQLite file may hold any value in any column.
"""

import math
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import psycopg
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tenantry.db.urls import sqlite_path
from tenantry.kit import private
from tenantry.kit.errors import Unavailable

# Rows in memory.
ROWS_AT_ONCE = 500
_FILE_NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_INTERNAL = re.compile(r"pg_.*|information_schema")


class ExportInterrupted(Unavailable):
    """The export was interrupted; what it has written is incomplete."""


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
    folder: Path,
    *,
    left_out: Callable[[str], frozenset[str] | None],
    connect_seconds: float,
    stop: Event,
) -> list[ExportedTable]:
    """Write the rows of every table into files of *folder*; return the tables.

    Args:
        url: Of the database.
        folder: An empty one.
        left_out: Returns, for the name of a table, the columns that are not exported; None for a
            table that is not exported at all.
        connect_seconds: How long to wait for the connection.
        stop: Ends the export early, when it is set by another thread.

    Raises:
        ExportInterrupted: *stop* was set.
        sa.exc.SQLAlchemyError: The database cannot be read.
    """
    exported: list[ExportedTable] = []
    with _snapshot(url, connect_seconds) as connection:
        inspector = sa.inspect(connection)
        for schema, name in sorted(_tables(inspector), key=lambda one: (one[0] or "", one[1])):
            omitted = left_out(name)
            if omitted is None:
                continue
            table = _described(inspector, schema, name, omitted, number=len(exported) + 1)
            rows = _write_rows(connection, table, folder / table.file, stop)
            exported.append(msgspec.structs.replace(table, rows=rows))
    return exported


@contextmanager
def _snapshot(url: str, connect_seconds: float) -> Iterator[sa.Connection]:
    """Open a transaction that reads one state of the database and cannot write."""
    path = sqlite_path(url)
    if path is None:
        engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=lambda: psycopg.connect(url, connect_timeout=math.ceil(connect_seconds)),
            poolclass=NullPool,
            isolation_level="REPEATABLE READ",
        )
        options: Mapping[str, object] = {"postgresql_readonly": True}
    else:
        address = f"{path.absolute().as_uri()}?mode=ro"
        engine = sa.create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(address, uri=True, isolation_level=None),
            poolclass=NullPool,
        )
        options = {}
    with engine.connect().execution_options(**options) as connection:
        if path is not None:
            connection.exec_driver_sql("BEGIN")
        yield connection
    engine.dispose()


def _tables(inspector: sa.Inspector) -> Iterator[tuple[str | None, str]]:
    if inspector.dialect.name == "sqlite":
        yield from ((None, name) for name in inspector.get_table_names())
        return
    for schema in inspector.get_schema_names():
        if not _INTERNAL.fullmatch(schema):
            yield from ((schema, name) for name in inspector.get_table_names(schema))


def _described(
    inspector: sa.Inspector, schema: str | None, name: str, omitted: frozenset[str], *, number: int
) -> ExportedTable:
    stem = name if _FILE_NAME.fullmatch(name) else "table"
    return ExportedTable(
        schema=schema,
        name=name,
        # The number makes it unique: names may differ in their case, or in their schema.
        file=f"{number:04}-{stem}.jsonl",
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


def _write_rows(connection: sa.Connection, table: ExportedTable, path: Path, stop: Event) -> int:
    quote = connection.dialect.identifier_preparer.quote
    names = [column.name for column in table.columns if not column.is_left_out]
    # ONLY: each row of a partitioned table is in the table that stores it, and in no other file.
    source = (
        quote(table.name)
        if table.schema is None
        else f"ONLY {quote(table.schema)}.{quote(table.name)}"
    )
    query = f"SELECT {', '.join(map(quote, names))} FROM {source}"  # noqa: S608 - quoted names
    encoder, count = msgspec.json.Encoder(enc_hook=str), 0
    streaming = connection.execution_options(stream_results=True, yield_per=ROWS_AT_ONCE)
    with private.open_new(path) as file, streaming.exec_driver_sql(query) as rows:
        for batch in rows.partitions(ROWS_AT_ONCE):
            if stop.is_set():
                raise ExportInterrupted
            objects = [dict(zip(names, map(_json, row), strict=True)) for row in batch]
            file.write(encoder.encode_lines(objects))
            count += len(batch)
    return count


def _json(value: Any) -> Any:
    """Return *value*, or text for what JSON does not have and msgspec would lose."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, timedelta):
        return str(value)
    return value
