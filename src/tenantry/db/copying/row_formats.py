"""The formats of exported rows: JSON lines, and CSV.

In both, a value is what its JSON form says: bytes are base64, times are in ISO 8601, and what JSON
does not have is text.
"""

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

Encode = Callable[[Sequence[Any]], bytes]
"""Returns a row as a line of a file."""

_encoder = msgspec.json.Encoder(enc_hook=str)


class RowFormat(StrEnum):
    """A format of exported rows, by the suffix of its files."""

    JSON_LINES = "jsonl"
    CSV = "csv"


def head_of(row_format: RowFormat, names: Sequence[str]) -> bytes:
    """Return what precedes the rows: for CSV, a line with the names of the columns."""
    return _csv(names) if row_format is RowFormat.CSV else b""


def encoder_of(row_format: RowFormat, names: Sequence[str]) -> Encode:
    """Return the function that encodes a row, whose columns have these *names*."""
    if row_format is RowFormat.CSV:
        return _csv

    def json_line(row: Sequence[Any]) -> bytes:
        return _encoder.encode(dict(zip(names, map(_json, row), strict=True))) + b"\n"

    return json_line


def _csv(row: Sequence[Any]) -> bytes:
    """Return a line of CSV (RFC 4180): each value in quotes, and NULL as nothing at all.

    So an empty text differs from NULL, and PostgreSQL's ``COPY … (FORMAT csv)`` reads both.
    """
    return f"{','.join(map(_field, row))}\r\n".encode()


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else _text(value)
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


def _text(value: Any) -> str:
    """Return the JSON form of a value; if that is a string, its text."""
    encoded = _encoder.encode(_json(value))
    return msgspec.json.decode(encoded, type=str) if encoded[:1] == b'"' else encoded.decode()


def _json(value: Any) -> Any:
    """Return *value*, or text for what JSON does not have and msgspec would lose."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, timedelta):
        return str(value)
    return value
