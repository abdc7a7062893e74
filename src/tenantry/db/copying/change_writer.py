"""Write the changes of a database to a copy of it, and check each of them.

A change must have exactly one row, and the row must then have exactly the values that were sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tenantry.db.copying.pgoutput import (
    Change,
    Relation,
    RowChange,
    Truncate,
    Unchanged,
    Value,
    Values,
)
from tenantry.db.servers import quoted
from tenantry.kit.errors import Conflict

BATCH_CHANGES = 200
"""Changes that are sent before a result is awaited."""
BATCH_BYTES = 2**20

Raw = psycopg.Connection[tuple[Any, ...]]

# Of the copy: columns that only an insert may set, and those of the primary key.
_TABLE = """
SELECT attname, attidentity = 'a', coalesce(attnum = ANY (indkey), false)
FROM pg_attribute LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
"""


class ChangeDiffers(Conflict):
    """A change of a row has another result in the copy; the message names the table."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the copy.

    Attributes:
        name: As SQL.
        columns: As SQL, in the order of the values.
        key: The numbers of the columns that identify a row.
        is_unique: Whether at most one row has a key.
        fixed: The numbers of the columns that an update cannot set.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    is_unique: bool
    fixed: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement, and the values of the row that it must return; none for a deleted row."""

    table: _Table
    sql: str
    parameters: Sequence[Value]
    expected: tuple[Value, ...] = ()


class ChangeWriter:
    """Writes changes in batches.

    Args:
        raw: A connection to the copy with `psycopg.RawCursor`, in a transaction. Its session must
            execute no triggers, and must have the settings of the session that has read the
            values.
        count: Called with the bytes of each change.
    """

    def __init__(self, raw: Raw, count: Callable[[int], None]) -> None:
        self._raw = raw
        self._count = count
        self._relations: dict[int, Relation] = {}
        self._tables: dict[int, _Table] = {}
        self._batch: list[_Step] = []
        self._batch_bytes = 0

    def describe(self, relation: Relation) -> None:
        """Note what later changes of a table refer to."""
        if self._relations.get(relation.id) == relation:
            return
        self._relations[relation.id] = relation
        name = f"{quoted(relation.schema)}.{quoted(relation.name)}"
        found = {row[0]: (row[1], row[2]) for row in self._raw.execute(_TABLE, [name])}
        fixed = [at for at, one in enumerate(relation.columns) if found[one][0]]
        primary = [at for at, one in enumerate(relation.columns) if found[one][1]]
        # Only the values of the identity are sent: that may be another unique index.
        is_index = len(relation.identity) < len(relation.columns)
        self._tables[relation.id] = _Table(
            name=name,
            columns=tuple(quoted(one) for one in relation.columns),
            key=relation.identity if is_index or not primary else tuple(primary),
            is_unique=is_index or bool(primary),
            fixed=frozenset(fixed),
        )

    def write(self, change: Change, size: int) -> None:
        """Write a change, whose message has *size* bytes; `flush` completes it.

        Raises:
            ChangeDiffers: An earlier one had another result.
            Exception: Any error of the driver.
        """
        self._count(size)
        if isinstance(change, Truncate):
            self.flush()
            names = ", ".join(f"ONLY {self._tables[one].name}" for one in change.relation_ids)
            self._raw.execute(f"TRUNCATE {names}".encode())
            return
        self._batch.append(_step(self._tables[change.relation_id], change))
        self._batch_bytes += size
        if len(self._batch) == BATCH_CHANGES or self._batch_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the rest, and check the results.

        Raises:
            ChangeDiffers, Exception: As for `write`.
        """
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        with self._raw.pipeline():
            cursors = [self._raw.execute(one.sql.encode(), one.parameters) for one in batch]
        for step, cursor in zip(batch, cursors, strict=True):
            if cursor.rowcount != 1 or not _is_as_sent(cursor, step.expected):
                raise ChangeDiffers(
                    f"A change of a row of {step.table.name} has another result in the copy."
                )


def _is_as_sent(cursor: "psycopg.Cursor[Any]", expected: Sequence[Value]) -> bool:
    if not expected:
        return True
    result = cursor.pgresult
    assert result is not None
    data = [result.get_value(0, at) for at in range(len(expected))]
    return [None if one is None else one.decode() for one in data] == list(expected)


def _step(table: _Table, change: RowChange) -> _Step:
    columns = ", ".join(table.columns)
    if change.old is None:
        assert change.new is not None
        places = ", ".join(f"${at}" for at in range(1, len(change.new) + 1))
        sql = (
            f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({places}) "  # noqa: S608
            f"RETURNING {columns}"
        )
        return _Step(table, sql, change.new, change.new)
    parameters: list[Value] = []
    match = _match(table, change.old, parameters)
    if change.new is None:
        return _Step(table, f"DELETE FROM ONLY {table.name} WHERE {match}", parameters)  # noqa: S608
    changed = {at: one for at, one in enumerate(change.new) if not isinstance(one, Unchanged)}
    columns = ", ".join(table.columns[at] for at in changed)
    assignments = []
    for at, value in changed.items():
        if at not in table.fixed:
            parameters.append(value)
            assignments.append(f"{table.columns[at]} = ${len(parameters)}")
    if assignments:
        sql = f"UPDATE ONLY {table.name} SET {', '.join(assignments)} WHERE {match} "  # noqa: S608
        sql += f"RETURNING {columns}"
    else:
        sql = f"SELECT {columns} FROM ONLY {table.name} WHERE {match}"  # noqa: S608
    return _Step(table, sql, parameters, tuple(changed.values()))


def _match(table: _Table, values: Values, parameters: list[Value]) -> str:
    """Return the condition that finds one row; add its parameters."""
    conditions = []
    for at in table.key:
        column, value = table.columns[at], values[at]
        if isinstance(value, Unchanged):
            raise ChangeDiffers(f"A change of {table.name} does not say which row it changes.")
        if value is None:
            conditions.append(f"{column} IS NULL")
            continue
        parameters.append(value)
        # As text, which every type has; equal rows are exchangeable.
        found = column if table.is_unique else f"pg_catalog.format('%s', {column})"
        conditions.append(f"{found} = ${len(parameters)}")
    condition = " AND ".join(conditions)
    if table.is_unique:
        return condition
    return f"ctid = (SELECT ctid FROM ONLY {table.name} WHERE {condition} LIMIT 1)"  # noqa: S608
