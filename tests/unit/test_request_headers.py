"""Parsing request headers with arbitrary content, and the time that it takes."""

import time

import pytest

from tenantry.api.requests import prefers
from tenantry.kit.negotiation import ELEMENTS_MAX, accepts_gzip, expected_tags, known_tags

# More than a header may have; what is quadratic takes a second for it.
HEADER_CHARS = 16_000
SECONDS_MAX = 0.05


class TestPrefers:
    @pytest.mark.parametrize("text", ['\\"', '"', '"\\', 'a="\\"', ",", "a=;", '",'])
    def test_takes_no_time(self, text: str):
        """Whatever is repeated in it, and whether it matches or not."""
        for chars in (1_024, HEADER_CHARS):
            header = text * (chars // len(text))
            began = time.process_time()
            prefers(header, "respond-async")

            assert time.process_time() - began < SECONDS_MAX

    @pytest.mark.parametrize("header", ['a="b, respond-async', 'a="b\\", respond-async', '"'])
    def test_takes_a_quotation_that_does_not_end_to_the_end(self, header: str):
        assert not prefers(header, "respond-async")

    def test_ignores_what_is_too_long(self):
        assert prefers("respond-async, x=" + "y" * 1_000, "respond-async")
        assert not prefers("respond-async, x=" + "y" * 1_100, "respond-async")


class TestElements:
    def test_of_a_list_are_read_up_to_a_number(self):
        """A list of 16,000 costs milliseconds."""
        for before, is_read in ((ELEMENTS_MAX - 1, True), (ELEMENTS_MAX, False)):
            assert accepts_gzip([(b"accept-encoding", b"a," * before + b"gzip")]) is is_read


class TestAcceptsGzip:
    @pytest.mark.parametrize(
        "value",
        ["gzip", "br, gzip;q=0.5", "GZIP", "*", "deflate, *;q=0.1", "gzip ; Q=1", "gzip;q=0.001"],
    )
    def test_where_it_is_named(self, value: str):
        assert accepts_gzip([(b"accept-encoding", value.encode())])

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip; q=0.0",
            "gzip;q=0.0000",
            "gzip;q=0.",
            "*;q=0.0",
            "gzip;q=0, *",
            "gzip;q=-1",
            "gzip;q=1e1",
            "gzip;q=",
            "gzip;level=9",
            "x-gzip-y",
        ],
    )
    def test_not_where_it_weighs_nothing_or_cannot_be_read(self, value: str):
        assert not accepts_gzip([(b"accept-encoding", value.encode())])

    def test_reads_all_headers_of_the_name(self):
        assert accepts_gzip([(b"accept-encoding", b"br"), (b"accept-encoding", b"gzip")])


class TestKnownTags:
    def test_are_compared_weakly(self):
        headers = [(b"if-none-match", b'"a", W/"b"'), (b"if-none-match", b" , *")]

        assert known_tags(headers) == {b'"a"', b'"b"', b"*"}


class TestExpectedTags:
    def test_of_an_empty_header_are_none_that_match(self):
        assert expected_tags([(b"if-match", b" , ")]) == frozenset()
        assert expected_tags([(b"if-none-match", b'"a"')]) is None
