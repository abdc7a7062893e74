"""Which transactions a snapshot contains."""

import pytest

from tenantry.db.visibility import Snapshot

WRAP = 2**32


class TestSnapshot:
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
    def test_contains_what_had_ended(self, xid: int, *, is_contained: bool):
        assert Snapshot.parse("100:103:100,102").contains(xid) is is_contained

    def test_contains_everything_before_if_nothing_was_running(self):
        snapshot = Snapshot.parse("100:100:")

        assert snapshot.contains(99)
        assert not snapshot.contains(100)

    @pytest.mark.parametrize(
        ("xid", "is_contained"),
        [(WRAP - 1, True), (WRAP - 2, False), (0, True), (9, True), (10, False), (50, False)],
    )
    def test_counts_past_32_bits(self, xid: int, *, is_contained: bool):
        """The snapshot is of the third epoch, and began in the second."""
        snapshot = Snapshot.parse(f"{3 * WRAP - 2}:{3 * WRAP + 10}:{3 * WRAP - 2}")

        assert snapshot.contains(xid) is is_contained
