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
class Insert:
    """A new row."""

    relation_id: int
    new: Values


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row; *old* is None if the columns of its identity are the same."""

    relation_id: int
    old: Values | None
    new: Values


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted row; outside the replica identity, the values of *old* are None."""

    relation_id: int
    old: Values


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables of which every row was deleted."""

    relation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """A message of `pg_logical_emit_message`."""

    prefix: str
    content: bytes


Change = Insert | Update | Delete | Truncate


def decode(data: bytes) -> Relation | Change | Marker | None:
    """Return the message in *data*; None if it has no meaning for a copy.

    Raises:
        BadMessage: It is not understood.
    """
    kind = data[:1]
    if kind in _WITHOUT_CHANGE:
        return None
    reader = _Reader(data[1:])
    try:
        message = _DECODERS[kind](reader)
    except (KeyError, ValueError) as error:
        raise BadMessage(f"A message of type {kind!r} cannot be decoded.") from error
    if not reader.is_at_end:
        raise BadMessage(f"A message of type {kind!r} is too long.")
    return message


def _insert(reader: "_Reader") -> Insert:
    relation_id, _ = reader.int32(), reader.one_of(b"N")
    return Insert(relation_id, reader.values())


def _update(reader: "_Reader") -> Update:
    relation_id, part = reader.int32(), reader.one_of(b"KON")
    if part == b"N":
        return Update(relation_id, None, reader.values())
    old, _ = reader.values(), reader.one_of(b"N")
    return Update(relation_id, old, reader.values())


def _delete(reader: "_Reader") -> Delete:
    relation_id, _ = reader.int32(), reader.one_of(b"KO")
    return Delete(relation_id, reader.values())


def _truncate(reader: "_Reader") -> Truncate:
    count, _options = reader.int32(), reader.take(1)
    return Truncate(tuple(reader.int32() for _ in range(count)))


def _marker(reader: "_Reader") -> Marker:
    reader.take(1 + 8)  # flags and position
    prefix = reader.text()
    return Marker(prefix, reader.take(reader.int32()))


def _relation(reader: "_Reader") -> Relation:
    relation_id, schema, name = reader.int32(), reader.text(), reader.text()
    reader.take(1)  # the replica identity; each column has a flag
    columns, identity = [], []
    for number in range(reader.int16()):
        if reader.take(1) == b"\1":
            identity.append(number)
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
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise ValueError(count)
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def one_of(self, expected: bytes) -> bytes:
        found = self.take(1)
        if found not in expected:
            raise ValueError(found)
        return found

    def int16(self) -> int:
        return int.from_bytes(self.take(2))

    def int32(self) -> int:
        return int.from_bytes(self.take(4))

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        return self.take(end + 1 - self._at)[:-1].decode()

    def values(self) -> Values:
        return tuple(self._value() for _ in range(self.int16()))

    def _value(self) -> Value:
        kind = self.take(1)
        if kind == b"n":
            return None
        if kind == b"u":
            return Unchanged.VALUE
        if kind != b"t":
            raise ValueError(kind)
        return self.take(self.int32()).decode()


_WITHOUT_CHANGE = (b"B", b"C", b"O", b"Y")  # begin, commit, origin, type
_DECODERS: dict[bytes, Callable[[_Reader], Relation | Change | Marker]] = {
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _marker,
}
