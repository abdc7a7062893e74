"""What a request says in its headers and its query string."""

import pytest

from tenantry.api.access_levels import API_KEY
from tenantry.api.request_body import BadRequest, decode_query
from tenantry.api.requests import ADDRESS_CHARS_MAX, address_of, read_credentials
from tenantry.api.table import ENDPOINTS

DELETE = next(
    one
    for one in ENDPOINTS
    if (one.method, one.path) == ("DELETE", "/api/admin/tenants/{tenantId}")
)


class TestCredentials:
    @pytest.mark.parametrize("blank", [b" ", b"\t", b" \t "])
    def test_are_read_without_the_blanks_of_http(self, blank: bytes):
        found = read_credentials([(API_KEY, blank + b"tnk_x" + blank)], frozenset({API_KEY}))

        assert found.api_key == "tnk_x"

    @pytest.mark.parametrize("blank", [b"\xa0", b"\x85", b"\x1c"])
    def test_keep_other_blanks(self, blank: bytes):
        """With them, they are invalid."""
        found = read_credentials([(API_KEY, blank + b"tnk_x")], frozenset({API_KEY}))

        assert found.api_key != "tnk_x"


class TestQuery:
    def test_is_named_when_a_member_is_missing(self):
        with pytest.raises(BadRequest, match="The query string has no `name`"):
            decode_query(DELETE, b"")


class TestAddress:
    @pytest.mark.parametrize(
        ("client", "address"),
        [
            (None, ""),
            (("203.0.113.7", 4711), "203.0.113.7"),
            (("2001:db8::1", None), "2001:db8::1"),
            (("a\x85b\nc", 4711), "a?b?c"),
            (("x" * 1_000, 4711), "x" * ADDRESS_CHARS_MAX),
        ],
    )
    def test_is_short_and_printable(self, client: tuple[str, int | None] | None, address: str):
        """A proxy may forward any text; the audit log and the throttle of logins store it."""
        assert address_of({"client": client}) == address
