"""Which transactions a snapshot contains."""

import pytest

from tenantry.db.postgres.visibility import CURRENT, is_visible
from testkit import raw_sql

WRAP = 2**32


def visible(server_url: str, xid: str, snapshot: str) -> object:
    ((found,),) = raw_sql.rows(server_url, "SELECT " + is_visible(xid, snapshot))
    return found


def contains(server_url: str, snapshot: str, xid: int) -> object:
    return visible(server_url, f"'{xid}'", f"'{snapshot}'")


class TestIsVisible:
    @pytest.mark.parametrize(
        ("xid", "is_contained"),
        [
            (3, True),
            (99, True),
            (100, False),
            (101, True),
            (102, False),
            (103, False),
            (9_999, False),
        ],
    )
    def test_contains_what_had_ended(self, server_url: str, xid: int, *, is_contained: bool):
        assert contains(server_url, "100:103:100,102", xid) is is_contained

    def test_contains_everything_before_if_nothing_was_running(self, server_url: str):
        assert contains(server_url, "100:100:", 99)
        assert not contains(server_url, "100:100:", 100)

    @pytest.mark.parametrize(
        ("xid", "is_contained"),
        [(WRAP - 1, True), (WRAP - 2, False), (0, True), (9, True), (10, False), (50, False)],
    )
    def test_counts_past_32_bits(self, server_url: str, xid: int, *, is_contained: bool):
        """The snapshot is of the third epoch, and began in the second."""
        snapshot = f"{3 * WRAP - 2}:{3 * WRAP + 10}:{3 * WRAP - 2}"

        assert contains(server_url, snapshot, xid) is is_contained

    def test_is_unknown_without_a_snapshot(self, server_url: str):
        assert visible(server_url, "'100'", "NULL") is None

    def test_reads_the_current_snapshot(self, server_url: str):
        current = f"({CURRENT})"

        assert visible(server_url, "'3'", current) is True
        assert visible(server_url, "pg_current_xact_id()::xid", current) is False
