"""Where heads and chunked bodies end, however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api.error_responses import BodyTooLarge, HeadersTooLarge
from tenantry.api.http.message_ends import (
    CONTENT_BYTES_MAX,
    FRAMING_BYTES_FREE,
    ChunkedBody,
    EmptyLine,
)
from tenantry.api.table import ENDPOINTS

NEXT = b"GET / HTTP/1.1\r\n\r\n"
content = st.lists(st.sampled_from([b"\r\n\r\n", b"0\r\n\r\n", b"a", b"\n", b"\r"]), min_size=1)
cuts = st.lists(st.integers(1, 9), min_size=1)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return the parts of *data*, with these sizes again and again."""
    parts, number = [], 0
    while data:
        size = sizes[number % len(sizes)]
        parts.append(data[:size])
        data, number = data[size:], number + 1
    return parts


def end_of(body: bytes, sizes: list[int], following: bytes = b"") -> int:
    """Return after how many bytes a body ends that arrives in parts, the last with *following*."""
    finder, count = ChunkedBody(), 0
    *parts, last = cut(body, sizes)
    for part in [*parts, last + following]:
        end = finder.end(part, 0)
        if end < len(part):
            return count + end
        count += end
    return count


class TestChunkedBody:
    @given(st.lists(content), st.sampled_from([b"", b"a: b\r\n", b"a: b\r\nc: d\r\n"]), cuts)
    def test_ends_after_its_trailers(
        self, chunks: list[list[bytes]], trailers: bytes, sizes: list[int]
    ):
        texts = [b"".join(one) for one in chunks]
        encoded = b"".join(b"%X;x=y\r\n%b\r\n" % (len(one), one) for one in texts)
        body = encoded + b"0\r\n" + trailers + b"\r\n"

        assert end_of(body, sizes, NEXT) == len(body)

    @given(cuts)
    def test_goes_on_after_a_line_that_the_parser_rejects(self, sizes: list[int]):
        for line in (b"-5\r\n", b"x\r\n", b"\r\n", b" \r\n", b"1_0\r\n", b"+1\r\n"):
            assert end_of(line + b"abc", sizes) == len(line) + 3

    @pytest.mark.parametrize("body", [b"1\r\n \r\n" * 7_000, b"1;" + b"x" * 7_000])
    def test_has_a_bounded_amount_of_framing(self, body: bytes):
        with pytest.raises(HeadersTooLarge):
            end_of(body, [1_000])

    def test_may_have_thousands_of_chunks_if_they_are_not_tiny(self):
        body = b"100\r\n%b\r\n" % (b"x" * 256) * 4_000 + b"0\r\n\r\n"

        assert end_of(body, [65_536], NEXT) == len(body)

    def test_may_have_hundreds_of_tiny_chunks(self):
        body = b"1\r\nx\r\n" * (FRAMING_BYTES_FREE // 6) + b"0\r\n\r\n"

        assert end_of(body, [65_536], NEXT) == len(body)

    def test_has_short_trailers_however_long_it_is(self):
        content = b"80000\r\n%b\r\n0\r\n" % (b"x" * 0x80000)

        with pytest.raises(HeadersTooLarge):
            end_of(content + b"a: " + b"x" * FRAMING_BYTES_FREE, [1_000])

    def test_may_be_as_long_as_any_endpoint_reads(self):
        assert max(one.body_bytes_max for one in ENDPOINTS) <= CONTENT_BYTES_MAX

    def test_is_not_longer_than_any_endpoint_reads(self):
        with pytest.raises(BodyTooLarge):
            end_of(b"400000\r\n" + b"x" * (CONTENT_BYTES_MAX + 3), [65_536])


class TestEmptyLine:
    @given(cuts)
    def test_is_found_across_parts(self, sizes: list[int]):
        head, finder, count = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", EmptyLine(), 0
        for part in cut(head + NEXT, sizes):
            end = finder.end(part, 0)
            if end is not None:
                assert count + end == len(head)
                return
            count += len(part)
        raise AssertionError
