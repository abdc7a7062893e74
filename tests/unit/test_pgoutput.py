"""Messages of PostgreSQL's `pgoutput`."""

import struct

import pytest

from tenantry.db.copying.pgoutput import (
    BadMessage,
    Marker,
    Relation,
    RowChange,
    Truncate,
    Unchanged,
    decode,
)


def text(value: str) -> bytes:
    data = value.encode()
    return b"t" + struct.pack(">i", len(data)) + data


def row(*values: bytes) -> bytes:
    return struct.pack(">h", len(values)) + b"".join(values)


ID = struct.pack(">I", 16_400)
NULL, SAME = b"n", b"u"
RELATION = (
    b"R" + ID + b"public\0note\0d" + struct.pack(">h", 2)
    + b"\1id\0" + struct.pack(">Ii", 23, -1)
    + b"\0body\0" + struct.pack(">Ii", 25, -1)
)  # fmt: skip


class TestDecode:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (RELATION, Relation(16_400, "public", "note", ("id", "body"), (0,))),
            (b"I" + ID + b"N" + row(text("1"), NULL), RowChange(16_400, None, ("1", None))),
            (
                b"U" + ID + b"N" + row(text("1"), SAME),
                RowChange(16_400, ("1", Unchanged.VALUE), ("1", Unchanged.VALUE)),
            ),
            (
                b"U" + ID + b"K" + row(text("1"), NULL) + b"N" + row(text("2"), text("ä")),
                RowChange(16_400, ("1", None), ("2", "ä")),
            ),
            (b"D" + ID + b"O" + row(text("1"), text("")), RowChange(16_400, ("1", ""), None)),
            (b"T" + struct.pack(">IB", 2, 0) + ID + ID, Truncate((16_400, 16_400))),
            (
                b"M\1" + struct.pack(">Q", 9) + b"tenantry\0" + struct.pack(">I", 2) + b"\0\1",
                Marker("tenantry", b"\0\1"),
            ),
            (b"B" + bytes(20), None),
            (b"C" + bytes(25), None),
        ],
    )
    def test_returns_the_message(self, data: bytes, expected: object):
        assert decode(data) == expected

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"X",
            b"S" + bytes(5),  # of a transaction in progress, which version 1 does not send
            b"I" + ID + b"N" + row(text("1"))[:-1],
            b"I" + ID + b"N" + row(text("1")) + b"\0",
            b"I" + ID + b"N" + row(b"b\0\0\0\1\0"),  # binary, which is not requested
            b"I" + ID + b"N" + row(b"t\0\0\0\1\xff"),
            b"I" + ID + b"N" + row(b"t\xff\xff\xff\xff"),
            b"D" + ID + b"N" + row(text("1")),
            b"U" + ID + b"K" + row(text("1")) + b"K" + row(text("1")),
            RELATION[:-1],
            RELATION[:9],
        ],
    )
    def test_rejects_what_is_not_documented(self, data: bytes):
        with pytest.raises(BadMessage):
            decode(data)
