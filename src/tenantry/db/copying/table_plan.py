"""Which tables and columns of a database are copied to another one, and how."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import sqlalchemy as sa

from tenantry.db.copying import row_values
from tenantry.db.copying.row_values import BadValue, ColumnKind, Convert, Kind
from tenantry.kit.errors import Conflict

SHOWN_MAX = 10
_INTERNAL = ("pg_", "information_schema")
_UUID_HEX_CHARS = 32
# An index of another table: FTS5 with external content. Its own tables hold nothing else.
_FULL_TEXT_INDEX = re.compile(
    r"\bUSING\s+fts5\s*\(.*\bcontent\s*=\s*[\"'`\[]?\w", re.IGNORECASE | re.DOTALL
)
# Litestream, which docs/howto/go-back-to-a-point-in-time.md recommends, adds them for itself.
_OF_LITESTREAM = {"_litestream_lock", "_litestream_seq"}
_OF_FULL_TEXT_INDEX = ("data", "idx", "docsize", "config")


class NotCarried(Conflict):
    """The data cannot be carried over to the other database; the message names what cannot."""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of the default schema that both databases have."""

    name: str
    columns: list[str]
    kinds: list[ColumnKind]


@dataclass(frozen=True, slots=True)
class Row:
    """Converts the rows of a table.

    Attributes:
        read: For each column, from the driver of the source.
        write: For each column, for the driver of the target.
        read_back: For each column, from the driver of the target.
        comparable: For each column.
    """

    table: PlannedTable
    read: list[Convert]
    write: list[Convert]
    read_back: list[Convert]
    comparable: list[Convert]

    def converted(self, row: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return a row as it is written, and as it is compared.

        Raises:
            NotCarried: A value has no counterpart.
        """
        at = 0
        try:
            values, compared = [], []
            for at, value in enumerate(row):
                one = self.read[at](value)
                values.append(self.write[at](one))
                compared.append(self.comparable[at](one))
        except BadValue as error:
            raise self._refusal(at, str(error)) from error
        except (ArithmeticError, RecursionError) as error:  # of Python's numbers, times and JSON
            raise self._refusal(at, "a value that is out of range") from error
        return tuple(values), tuple(compared)

    def _refusal(self, at: int, what: str) -> NotCarried:
        return NotCarried(
            f"{self.table.name}.{self.table.columns[at]} has {what}, which the other database "
            "cannot hold."
        )

    def compared(self, row: Any) -> tuple[Any, ...]:
        """Return a row of the target as it is compared."""
        return tuple(
            compare(read(value))
            for read, compare, value in zip(self.read_back, self.comparable, row, strict=True)
        )


def plan_tables(source: sa.Connection, target: sa.Connection) -> list[PlannedTable]:
    """Return the tables, in an order in which a table follows those that it refers to.

    Raises:
        NotCarried: A table or a column is in one database only, is generated, has a type without
            a counterpart, or tables refer to each other in a circle.
    """
    here, there = sa.inspect(source), sa.inspect(target)
    names = set(here.get_table_names()) - _of_indexes(source) - _OF_LITESTREAM
    there_names = set(there.get_table_names()) - _of_indexes(target)
    faults = [*_in_other_schemas(here)]
    faults += [f"the table {name} exists only in the data" for name in sorted(names - there_names)]
    faults += [f"the table {name} is not in the data" for name in sorted(there_names - names)]
    planned = {name: _plan(here, there, name, faults) for name in sorted(names & there_names)}
    order = _ordered(there, set(planned), faults)
    if faults:
        shown = "; ".join(faults[:SHOWN_MAX])
        more = f"; and {len(faults) - SHOWN_MAX} more" if len(faults) > SHOWN_MAX else ""
        raise NotCarried(f"The data cannot be carried over: {shown}{more}.")
    return [planned[name] for name in order]


def full_text_indexes(connection: sa.Connection) -> list[str]:
    """Return the full-text indexes of tables, which are rebuilt and not copied."""
    if connection.dialect.name != "sqlite":
        return []
    found = connection.exec_driver_sql(
        "SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' ORDER BY name"
    )
    return [name for name, text in found if _FULL_TEXT_INDEX.search(text)]


def _of_indexes(connection: sa.Connection) -> set[str]:
    """Return the tables that full-text indexes consist of."""
    indexes = full_text_indexes(connection)
    return {*indexes, *(f"{one}_{part}" for one in indexes for part in _OF_FULL_TEXT_INDEX)}


def converter(table: PlannedTable, source: sa.Dialect, target: sa.Dialect) -> Row:
    """Return how rows are converted on the way, and how those of the target are compared."""
    to = row_values.to_sqlite if target.name == "sqlite" else (lambda _kind: _same)
    return Row(
        table,
        read=_readers(table, source),
        write=[to(kind) for kind in table.kinds],
        read_back=_readers(table, target),
        comparable=[row_values.comparable(kind) for kind in table.kinds],
    )


def _readers(table: PlannedTable, dialect: sa.Dialect) -> list[Convert]:
    reader: Callable[[ColumnKind], Convert] = (
        row_values.from_sqlite if dialect.name == "sqlite" else row_values.from_postgresql
    )
    return [reader(kind) for kind in table.kinds]


def _same(value: Any) -> Any:
    return value


def _in_other_schemas(inspector: sa.Inspector) -> Iterator[str]:
    if inspector.dialect.name == "sqlite":
        return
    for schema in inspector.get_schema_names():
        if schema != inspector.default_schema_name and not schema.startswith(_INTERNAL):
            yield from (
                f"the table {schema}.{name} is in another schema"
                for name in inspector.get_table_names(schema)
            )


def _plan(here: sa.Inspector, there: sa.Inspector, table: str, faults: list[str]) -> PlannedTable:
    columns = {one["name"]: one for one in here.get_columns(table)}
    others = {one["name"]: one for one in there.get_columns(table)}
    for name in sorted(columns.keys() ^ others.keys()):
        where = "exists only in the data" if name in columns else "is not in the data"
        faults.append(f"the column {table}.{name} {where}")
    kinds = []
    common = [name for name in columns if name in others]
    for name in common:
        if "computed" in columns[name] or "computed" in others[name]:
            faults.append(f"the column {table}.{name} is generated")
        kind = _kind(here, there, columns[name]["type"], others[name]["type"])
        if kind is None:
            faults.append(f"the type of the column {table}.{name} has no counterpart")
        kinds.append(kind or ColumnKind(Kind.RAW))
    return PlannedTable(table, common, kinds)


def _kind(
    here: sa.Inspector,
    there: sa.Inspector,
    type_: sa.types.TypeEngine[Any],
    other: sa.types.TypeEngine[Any],
) -> ColumnKind | None:
    if there.dialect.name == "postgresql":
        kind, file_type = row_values.kind_of(other), type_
    elif here.dialect.name == "postgresql":
        kind, file_type = row_values.kind_of(type_), other
    else:
        return ColumnKind(Kind.RAW)
    if kind is None or kind.kind is not Kind.UUID:
        return kind
    return ColumnKind(
        Kind.UUID, is_hex=getattr(file_type, "length", None) in (None, _UUID_HEX_CHARS)
    )


def _ordered(inspector: sa.Inspector, names: set[str], faults: list[str]) -> list[str]:
    """Return the tables in the order of their foreign keys; one to the same table has no effect."""
    graph = {
        name: {key["referred_table"] for key in inspector.get_foreign_keys(name)} & names - {name}
        for name in sorted(names)
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        faults.append(f"the tables {', '.join(error.args[1])} refer to each other in a circle")
        return []
