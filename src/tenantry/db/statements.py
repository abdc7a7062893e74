"""Statements, compiled once for an engine, when they are first used on it.

SQLAlchemy handles the types, the casts and the differences between the two engines, but it is
too slow to run on each request. So each statement is compiled once. The result is its SQL, the
order of its parameters, and the conversion of each parameter and column. A session runs that
directly on the driver. To compile all of them, for both engines, when they are declared took
0.1 s of the start of each command.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import starmap
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from tenantry.kit.errors import Conflict

POSTGRESQL: sa.Dialect = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]
SQLITE: sa.Dialect = sqlite.dialect()

# SQLite compiles PostgreSQL's "on conflict do update", so one insert serves both.
insert = postgresql.insert

Convert = Callable[[Any], Any]
Row = TypeVar("Row")
Conflicts = Mapping[str, type[Conflict]]
"""The error to raise for each unique constraint, by the constraint's name."""


class Count(msgspec.Struct, frozen=True):
    """The number of rows."""

    count: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement on one engine."""

    sql: str
    _names: tuple[str, ...] = ()
    _conversions: tuple[tuple[int, Convert], ...] = ()
    _constants: Mapping[str, object] = field(default_factory=dict)
    _results: tuple[tuple[int, Convert], ...] = ()

    def arguments(self, values: Mapping[str, object]) -> list[object]:
        """Return *values* as the driver needs them: converted, in the order of the SQL."""
        known = {**self._constants, **values} if self._constants else values
        found = list(map(known.__getitem__, self._names))
        for at, convert in self._conversions:
            found[at] = convert(found[at])
        return found

    def rows(self, row: type[Row] | None, found: Sequence[Sequence[Any]]) -> list[Row]:
        """Return the rows that the driver has *found*, with their values converted to Python."""
        if row is None:
            return []
        if not self._results:
            return list(starmap(row, found))
        rows: list[Row] = []
        for one in found:
            fields = list(one)
            for position, convert in self._results:
                fields[position] = convert(fields[position])
            rows.append(row(*fields))
        return rows


class Statement(Generic[Row]):
    """One SQL statement and the type of its rows.

    Args:
        clause: The statement. Its ``bindparam`` are the keyword arguments of a session's methods.
        row: A Struct. Its fields are the statement's columns, in the same order.
        conflicts: The error to raise for some unique constraints.
        on_sqlite: Two statements that SQLite runs instead, in one transaction; the rows are those
            of the second. SQLite has no data-modifying CTE.
    """

    def __init__(
        self,
        clause: Executable,
        row: type[Row] | None = None,
        *,
        conflicts: Conflicts | None = None,
        on_sqlite: tuple[Executable, Executable] | None = None,
    ) -> None:
        self.row = row
        self.conflicts: Conflicts = conflicts or {}
        self._clause = clause
        self._on_sqlite: tuple[Executable, ...] = on_sqlite or (clause,)

    @cached_property
    def postgresql(self) -> Compiled:
        """The statement on PostgreSQL."""
        return compile_for(POSTGRESQL, self._clause, _columns(self._clause, self.row))

    @cached_property
    def sqlite(self) -> Compiled:
        """The statement on SQLite, or the second one of two."""
        return compile_for(SQLITE, self._on_sqlite[-1], _columns(self._clause, self.row))

    @cached_property
    def sqlite_first(self) -> Compiled | None:
        """The first of two statements on SQLite."""
        return None if len(self._on_sqlite) == 1 else compile_for(SQLITE, self._on_sqlite[0])


def compile_for(
    dialect: sa.Dialect,
    clause: Executable,
    columns: Sequence[TypeEngine[Any]] = (),
) -> Compiled:
    """Compile *clause* for one engine.

    Args:
        dialect: The engine.
        clause: The statement.
        columns: The types of the result's columns.
    """
    if isinstance(clause, sa.schema.ExecutableDDLElement):  # it has no parameters
        return Compiled(str(clause.compile(dialect=dialect)))
    compiled = clause.compile(dialect=dialect)  # type: ignore[attr-defined]
    assert isinstance(compiled, SQLCompiler)
    names = tuple(compiled.positiontup or ())
    binds = [compiled.binds[name] for name in names]
    return Compiled(
        compiled.string,
        names,
        _conversions(_bind(dialect, bind.type) for bind in binds),
        {
            name: one.effective_value
            for name, one in zip(names, binds, strict=True)
            if not one.required
        },
        _conversions(_result(dialect, column) for column in columns),
    )


def columns_of(table: sa.FromClause, row: type[Any]) -> list[sa.ColumnElement[Any]]:
    """Return the columns of *table* that the fields of *row* name."""
    return [table.c[name] for name in row.__struct_fields__]


def parameters(*names: str) -> dict[str, sa.BindParameter[Any]]:
    """Return ``values`` for an insert or update: a parameter for each column, of the same name."""
    return {name: sa.bindparam(name) for name in names}


def _columns(clause: Executable, row: type[Any] | None) -> list[TypeEngine[Any]]:
    if row is None:
        return []
    columns = list(clause.exported_columns)  # type: ignore[attr-defined]
    is_row = tuple(column.key for column in columns) == row.__struct_fields__
    assert is_row, f"{row} is not the row of {clause}"
    return [column.type for column in columns]


def _conversions(found: Iterable[Convert | None]) -> tuple[tuple[int, Convert], ...]:
    """Return the conversions, each with the position of its value."""
    return tuple((at, convert) for at, convert in enumerate(found) if convert is not None)


def _bind(dialect: sa.Dialect, type_: TypeEngine[Any]) -> Convert | None:
    if dialect is SQLITE and isinstance(type_, sa.DateTime):
        return _write_instant
    return type_.dialect_impl(dialect).bind_processor(dialect)


def _result(dialect: sa.Dialect, type_: TypeEngine[Any]) -> Convert | None:
    if dialect is SQLITE and isinstance(type_, sa.DateTime):
        return _read_instant
    return type_.dialect_impl(dialect).result_processor(dialect, None)


# SQLite has no time zones, so times are stored in UTC, without a zone.


def _write_instant(instant: datetime | None) -> str | None:
    if instant is None:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def _read_instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)
