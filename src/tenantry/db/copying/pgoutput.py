"""Decode the messages of `pgoutput`, the output of PostgreSQL's logical decoding.

Source: the PostgreSQL manual, "Logical Replication Message Formats", version 1 of the protocol.
Only whole transactions are sent, in the order of their commits. Values are in their text format.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

PROTOCOL = "1"


class BadMessage(Exception):
    """The message does not have the documented form."""


class Unchanged(Enum):
    """Marks a large value that an update has not changed, and that is not sent."""

    VALUE = "unchanged"


Value = str | None | Unchanged
Values = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as later messages refer to it.

    Attributes:
        id: In the messages of one call.
        columns: Those that are sent; generated ones are not.
        identity: The numbers of the columns of its replica identity.
    """

    id: int
    schema: str
    name: str
    columns: tuple[str, ...]
    identity: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that was inserted, updated or deleted.

    Attributes:
        old: What identifies the row; None for a new one. Of a deleted row, the values outside the
            replica identity are None. If an update has not changed them, they are those of *new*.
        new: None for a deleted row.
    """

    relation_id: int
    old: Values | None
    new: Values | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables of which every row was deleted."""

    relation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """A message of `pg_logical_emit_message`."""

    prefix: str
    content: bytes


Change = RowChange | Truncate


def decode(data: bytes) -> Relation | Change | Marker | None:
    """Return the message in *data*; None if it has no meaning for a copy.

    Raises:
        BadMessage: It is not understood.
    """
    kind, reader = data[:1], _Reader(data[1:])
    if kind in _WITHOUT_CHANGE:
        return None
    try:
        message = _row_change(kind, reader) if kind in _ROWS else _DECODERS[kind](reader)
    except (KeyError, ValueError) as error:
        raise BadMessage(f"A message of type {kind!r} cannot be decoded.") from error
    if not reader.is_at_end:
        raise BadMessage(f"A message of type {kind!r} is too long.")
    return message


def _row_change(kind: bytes, reader: "_Reader") -> RowChange:
    relation_id, marks, rows = reader.number(4), b"", list[Values]()
    while not reader.is_at_end:
        marks += reader.take(1)
        rows.append(reader.values())
    if marks not in _ROWS[kind]:
        raise ValueError(marks)
    old, new = rows[0], rows[-1]
    return RowChange(relation_id, None if kind == b"I" else old, None if kind == b"D" else new)


def _truncate(reader: "_Reader") -> Truncate:
    count, _options = reader.number(4), reader.take(1)
    return Truncate(tuple(reader.number(4) for _ in range(count)))


def _marker(reader: "_Reader") -> Marker:
    reader.take(1 + 8)  # flags and position
    prefix = reader.text()
    return Marker(prefix, reader.take(reader.number(4)))


def _relation(reader: "_Reader") -> Relation:
    relation_id, schema, name = reader.number(4), reader.text(), reader.text()
    reader.take(1)  # the replica identity; each column has a flag
    columns, identity = [], []
    for at in range(reader.number(2)):
        if reader.take(1) == b"\1":
            identity.append(at)
        columns.append(reader.text())
        reader.take(4 + 4)  # the type and its modifier
    return Relation(relation_id, schema, name, tuple(columns), tuple(identity))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise ValueError(count)
        return self._data[start : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def text(self) -> str:
        return self.take(self._data.index(b"\0", self._at) + 1 - self._at)[:-1].decode()

    def values(self) -> Values:
        return tuple(self._value() for _ in range(self.number(2)))

    def _value(self) -> Value:
        kind = self.take(1)
        if kind == b"t":
            return self.take(self.number(4)).decode()
        return _WITHOUT_TEXT[kind]


_WITHOUT_CHANGE = (b"B", b"C", b"O", b"Y")  # begin, commit, origin, type
_WITHOUT_TEXT: dict[bytes, Value] = {b"n": None, b"u": Unchanged.VALUE}
# The rows of an insert, an update and a delete: by key, the old one, the new one.
_ROWS = {b"I": (b"N",), b"U": (b"N", b"KN", b"ON"), b"D": (b"K", b"O")}
_DECODERS: dict[bytes, Callable[[_Reader], Relation | Change | Marker]] = {
    b"R": _relation,
    b"T": _truncate,
    b"M": _marker,
}
