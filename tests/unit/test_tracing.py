"""`traceparent` as strangers send it."""

import pytest

from tenantry.kit.tracing import TRACEPARENT_BYTES_MAX, parse_traceparent

TRACE, SPAN = b"0af7651916cd43dd8448eb211c80319c", b"b7ad6b7169203331"
VALID = b"00-" + TRACE + b"-" + SPAN + b"-01"


def test_the_ids_and_whether_the_client_records_are_read():
    assert parse_traceparent(VALID) == (int(TRACE, 16), int(SPAN, 16), 1)
    assert parse_traceparent(VALID[:-2] + b"00") == (int(TRACE, 16), int(SPAN, 16), 0)


def test_a_later_version_may_append_fields():
    assert parse_traceparent(b"cc" + VALID[2:] + b"-what-the-future-brings") is not None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        VALID[:-1],
        VALID + b"-more",  # version 00 has no more fields
        VALID + b" ",
        VALID + b"\n",
        VALID.upper(),
        b"ff" + VALID[2:],
        b"cc" + VALID[2:] + b"more",
        b"00-" + b"0" * 32 + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + b"0" * 16 + b"-01",
        VALID.replace(b"b7", b"\xb2\xb7"),
        b"cc" + VALID[2:] + b"-" + b"a" * TRACEPARENT_BYTES_MAX,
        VALID + b"," + VALID,
    ],
)
def test_everything_else_is_ignored(value: bytes):
    assert parse_traceparent(value) is None
