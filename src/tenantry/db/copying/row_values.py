"""Values of rows that are copied between engines: read, checked, written and compared.

The type of a column on PostgreSQL decides what a value means, because a SQLite file may hold any
value in any column. A time without a zone in SQLite is in UTC where PostgreSQL has a zone. A value
that would change is rejected, never rounded or cut.
"""

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

BITS = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
FRACTION_DIGITS_MAX = 6
# PostgreSQL has 131072 digits before the point, and 16383 after it.
_EXACT = Context(prec=147_455, Emin=-999_999, Emax=999_999)

Convert = Callable[[Any], Any]
Parsed = TypeVar("Parsed")


class Kind(StrEnum):
    """What a value means. `RAW` is not converted: both sides are SQLite."""

    RAW = "raw"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMERIC = "numeric"
    FLOAT = "float"
    REAL = "real"
    TEXT = "text"
    PADDED = "padded text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    LOCAL_TIME = "local time"
    INSTANT = "instant"
    UUID = "uuid"
    JSON = "json"


class BrokenText:
    """A text in a SQLite file that is not UTF-8."""


def decode_text(data: bytes) -> str | BrokenText:
    """Return a text of a SQLite file; sqlite3's own error for one is that of a broken database."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BrokenText()


class BadValue(ValueError):
    """The value has no counterpart in the other database; the text says what it is."""


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """The kind of a column, and its limits.

    Attributes:
        kind: What its values mean.
        size: The bits of an integer, the characters of a text, the digits of a number.
        scale: The digits after the point.
        is_hex: Whether a UUID is written to SQLite without hyphens.
    """

    kind: Kind
    size: int | None = None
    scale: int | None = None
    is_hex: bool = True


def kind_of(type_: sa.types.TypeEngine[Any]) -> ColumnKind | None:
    """Return the kind of a column of PostgreSQL, or None if SQLite has no counterpart."""
    return next((make(type_) for one, make in _KINDS if isinstance(type_, one)), None)


def from_sqlite(column: ColumnKind) -> Convert:
    """Return the function that converts a value of SQLite; it raises `BadValue`."""
    read = _FROM_SQLITE.get(column.kind)
    if read is None:
        return lambda value: value
    return lambda value: None if value is None else read(value, column)


def from_postgresql(column: ColumnKind) -> Convert:
    """Return the function that converts a value of psycopg."""
    if column.kind is Kind.BYTES:
        return lambda value: None if value is None else bytes(value)
    if column.kind is Kind.INSTANT:
        return lambda value: None if value is None else value.astimezone(UTC)
    return lambda value: value


def to_sqlite(column: ColumnKind) -> Convert:
    """Return the function that converts a value for SQLite; it raises `BadValue`."""
    write = _TO_SQLITE.get(column.kind)
    if write is None:
        return lambda value: value
    return lambda value: None if value is None else write(value, column)


def comparable(column: ColumnKind) -> Convert:
    """Return the function that gives equal values of both databases the same `repr`."""
    normal = _COMPARABLE.get(column.kind)
    if normal is None:
        return lambda value: value
    return lambda value: None if value is None else normal(value)


def _expect(value: object, *types: type) -> None:
    if isinstance(value, BrokenText):
        raise BadValue("a text that is not UTF-8")
    if type(value) not in types:
        raise BadValue(f"a value of the type {type(value).__name__}")


def _boolean(value: Any, _column: ColumnKind) -> bool:
    if value not in (0, 1) or type(value) is not int:
        raise BadValue("a boolean that is neither 0 nor 1")
    return bool(value)


def _integer(value: Any, column: ColumnKind) -> int:
    _expect(value, int)
    assert column.size is not None
    limit = 1 << (column.size - 1)
    if not -limit <= value < limit:
        raise BadValue("a number that is out of range")
    return int(value)


def _numeric(value: Any, column: ColumnKind) -> Decimal:
    _expect(value, int, float, str)
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise BadValue("a number in another notation") from None
    if not number.is_finite():
        raise BadValue("a number that is not finite")
    if column.size is not None:
        scale = column.scale or 0
        if number != round(number, scale):
            raise BadValue("a number with too many decimal places")
        if number and number.adjusted() >= column.size - scale:
            raise BadValue("a number with too many digits")
    return number


def _float(value: Any, column: ColumnKind) -> float:
    _expect(value, int, float)
    number = float(value)
    if number != value:
        raise BadValue("a number with too many digits")
    if column.kind is Kind.REAL and math.isfinite(number):
        try:
            is_exact = struct.unpack("f", struct.pack("f", number))[0] == number
        except OverflowError:
            is_exact = False
        if not is_exact:
            raise BadValue("a number with too many digits for the type real")
    return number


def _text(value: Any, column: ColumnKind) -> str:
    _expect(value, str)
    if "\0" in value:
        raise BadValue("a text with the character NUL")
    if column.size is not None and len(value) > column.size:
        raise BadValue(f"a text of more than {column.size} characters")
    return str(value)


def _bytes(value: Any, _column: ColumnKind) -> bytes:
    _expect(value, bytes)
    return bytes(value)


def _date(value: Any, _column: ColumnKind) -> date:
    return _parsed(date.fromisoformat, value, "date")


def _time(value: Any, _column: ColumnKind) -> time:
    parsed = _parsed(time.fromisoformat, value, "time")
    if parsed.tzinfo is not None:
        raise BadValue("a time with a zone")
    return parsed


def _local_time(value: Any, _column: ColumnKind) -> datetime:
    parsed = _parsed(datetime.fromisoformat, value, "time")
    if parsed.tzinfo is not None:
        raise BadValue("a time with a zone")
    return parsed


def _instant(value: Any, _column: ColumnKind) -> datetime:
    parsed = _parsed(datetime.fromisoformat, value, "time")
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _parsed(parse: Callable[[str], Parsed], value: Any, what: str) -> Parsed:
    _expect(value, str)
    fraction = value.partition(".")[2].partition("+")[0].partition("-")[0].rstrip("Z")
    if len(fraction) > FRACTION_DIGITS_MAX:
        raise BadValue(f"a {what} with more than {FRACTION_DIGITS_MAX} decimal places")
    try:
        return parse(value)
    except ValueError:
        raise BadValue(f"a {what} in another notation") from None


def _uuid(value: Any, _column: ColumnKind) -> UUID:
    _expect(value, str)
    try:
        return UUID(value)
    except ValueError:
        raise BadValue("a text that is no UUID") from None


def _json(value: Any, _column: ColumnKind) -> str:
    # A column of the type JSON has the affinity NUMERIC: a number is stored as one.
    text = json.dumps(value) if type(value) in (int, float) else value
    _expect(text, str)
    try:
        _plain_json(text)
    except ValueError:
        raise BadValue("a text that is no JSON") from None
    if "\\u0000" in text:
        raise BadValue("JSON with the character NUL")
    return str(text)


def _write_numeric(value: Decimal, _column: ColumnKind) -> int | float:
    if value.is_finite():
        if value == value.to_integral_value() and abs(value) < 1 << 63:
            return int(value)
        if Decimal(repr(float(value))) == value:
            return float(value)
    raise BadValue("a number that SQLite cannot store exactly")


def _write_float(value: float, _column: ColumnKind) -> float:
    if math.isnan(value):
        raise BadValue("the number NaN, which SQLite stores as NULL")
    return value


def _write_uuid(value: UUID, column: ColumnKind) -> str:
    return value.hex if column.is_hex else str(value)


def _write_datetime(value: datetime, _column: ColumnKind) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _plain_number(value: Decimal | float | str) -> str:
    # Adding zero removes the sign of zero.
    return str(_EXACT.normalize(_EXACT.add(Decimal(value), Decimal(0))))


def _plain_json(text: str) -> str:
    def reject(_text: str) -> None:
        raise ValueError

    value = json.loads(
        text, parse_float=_plain_number, parse_int=_plain_number, parse_constant=reject
    )
    return json.dumps(value, sort_keys=True)


_FROM_SQLITE: dict[Kind, Callable[[Any, ColumnKind], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.NUMERIC: _numeric,
    Kind.FLOAT: _float,
    Kind.REAL: _float,
    Kind.TEXT: _text,
    Kind.PADDED: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.LOCAL_TIME: _local_time,
    Kind.INSTANT: _instant,
    Kind.UUID: _uuid,
    Kind.JSON: _json,
}
_TO_SQLITE: dict[Kind, Callable[[Any, ColumnKind], Any]] = {
    Kind.BOOLEAN: lambda value, _column: int(value),
    Kind.NUMERIC: _write_numeric,
    Kind.FLOAT: _write_float,
    Kind.REAL: _write_float,
    Kind.DATE: lambda value, _column: value.isoformat(),
    Kind.TIME: lambda value, _column: value.isoformat(timespec="microseconds"),
    Kind.LOCAL_TIME: _write_datetime,
    Kind.INSTANT: _write_datetime,
    Kind.UUID: _write_uuid,
}
_COMPARABLE: dict[Kind, Convert] = {
    Kind.NUMERIC: _plain_number,
    Kind.FLOAT: lambda value: value + 0.0,
    Kind.REAL: lambda value: value + 0.0,
    Kind.PADDED: lambda value: value.rstrip(" "),
    Kind.JSON: _plain_json,
}
# The first that matches: some types are subclasses of others.
_KINDS: list[tuple[type[sa.types.TypeEngine[Any]], Callable[[Any], ColumnKind | None]]] = [
    (sa.Boolean, lambda _type: ColumnKind(Kind.BOOLEAN)),
    (sa.Integer, lambda type_: ColumnKind(Kind.INTEGER, BITS[type_.__visit_name__.upper()])),
    (sa.REAL, lambda _type: ColumnKind(Kind.REAL)),
    (sa.Float, lambda _type: ColumnKind(Kind.FLOAT)),
    (sa.Numeric, lambda type_: ColumnKind(Kind.NUMERIC, type_.precision, type_.scale)),
    (sa.Enum, lambda _type: ColumnKind(Kind.TEXT)),
    (sa.CHAR, lambda type_: ColumnKind(Kind.PADDED, type_.length)),
    (sa.String, lambda type_: ColumnKind(Kind.TEXT, type_.length)),
    (sa.LargeBinary, lambda _type: ColumnKind(Kind.BYTES)),
    (
        sa.DateTime,
        lambda type_: ColumnKind(Kind.INSTANT if type_.timezone else Kind.LOCAL_TIME),
    ),
    (sa.Date, lambda _type: ColumnKind(Kind.DATE)),
    (sa.Time, lambda type_: None if type_.timezone else ColumnKind(Kind.TIME)),
    (sa.Uuid, lambda _type: ColumnKind(Kind.UUID)),
    (sa.JSON, lambda _type: ColumnKind(Kind.JSON)),
]
