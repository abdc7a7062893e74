"""An unpaired surrogate in a body: refused in a known member, and cheap to find."""

import time

import pytest

from tenantry.api.request_body import BadRequest, decode_body
from tenantry.api.table import ENDPOINTS

WRITE = next(one for one in ENDPOINTS if (one.method, one.path[-6:]) == ("POST", "/posts"))
SECONDS_MAX = 0.05
GOOD = b'{"title": "A", "content": "B"'


class TestDecodeBody:
    @pytest.mark.parametrize("half", [rb"\ud800", rb"\uDFFF", rb"\ude00\ud83d", rb"\\\ud800"])
    def test_refuses_an_unpaired_surrogate_in_a_known_member(self, half: bytes):
        with pytest.raises(BadRequest):
            decode_body(WRITE, b'{"title": "A", "content": "' + half + b'"}')

    @pytest.mark.parametrize("half", [rb"\ud800", rb"\uDFFF"])
    def test_ignores_it_elsewhere(self, half: bytes):
        decoded = decode_body(WRITE, GOOD + b', "x": "' + half + b'", "y": "\\ud83d\\ude00"}')

        assert (decoded.title, decoded.content) == ("A", "B")

    def test_keeps_whole_pairs_and_backslashes(self):
        sent = b'{"title": "\\ud83d\\ude00", "content": "\\\\ud800", "x": "\\ud800"}'

        decoded = decode_body(WRITE, sent)

        assert (decoded.title, decoded.content) == ("\U0001f600", "\\ud800")

    @pytest.mark.parametrize(
        "rest",
        [
            b", ".join([b"{}"] * 260_000),
            b'"' + rb"\ud800" * 170_000 + b'"',
            b'"' + b"\\" * 10**6 + b'"',
        ],
        ids=["objects", "surrogates", "backslashes"],
    )
    def test_refuses_it_anywhere_in_a_large_body(self, rest: bytes):
        """To replace them would take as long as a hundred requests."""
        body = GOOD + b', "x": "\\ud800", "y": [' + rest + b"]}"
        began = time.process_time()
        with pytest.raises(BadRequest):
            decode_body(WRITE, body)

        assert time.process_time() - began < SECONDS_MAX
