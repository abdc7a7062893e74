"""Options of a run: which are refused, and how many tenants an amount is."""

import pytest

from tenantry.fleet.run_options import (
    LABEL_CHARS_MAX,
    TENANTS_NAMED_MAX,
    WAVES_MAX,
    Amount,
    BadRunOptions,
    Hold,
    RunOptions,
)
from tenantry.kit.ids import new_id
from tenantry.kit.text import BadText


class TestCheck:
    @pytest.mark.parametrize(
        "waves",
        [
            [1],
            [1, 10, 100],
            [5, 5, 5],
            [1, "10%", "100%"],
            ["1%", "1%", "50%"],
            [10**30],
            [1] * WAVES_MAX,
        ],
        ids=str,
    )
    def test_takes_waves(self, waves: list[Amount]):
        RunOptions(waves=waves).check()

    @pytest.mark.parametrize(
        "waves",
        [
            [],
            [0],
            [-1],
            [1, 0],
            ["0%"],
            ["101%"],
            ["200%"],
            ["-1%"],
            ["10"],
            ["ten%"],
            ["1.5%"],
            ["٣%"],
            ["10 %"],
            [""],
            [2, 1],
            ["50%", "10%"],
            [1, 1, 3, 2],
            [1] * (WAVES_MAX + 1),
        ],
        ids=lambda waves: str(waves)[:30],
    )
    def test_refuses_waves(self, waves: list[Amount]):
        """They are positive, do not decrease, and are at most 100 %."""
        with pytest.raises(BadRunOptions, match="`waves`"):
            RunOptions(waves=waves).check()

    @pytest.mark.parametrize("amount", [0, 3, 10**30, "0%", "5%", "100%"])
    def test_takes_failures(self, amount: Amount):
        RunOptions(max_failures=amount).check()

    @pytest.mark.parametrize("amount", [-1, "101%", "5", "", "5%5%", "five"])
    def test_refuses_failures(self, amount: Amount):
        with pytest.raises(BadRunOptions, match="`maxFailures`"):
            RunOptions(max_failures=amount).check()

    @pytest.mark.parametrize("label", ["", "  ", "a\0b", "x" * (LABEL_CHARS_MAX + 1)])
    def test_refuses_a_label_of_several_lines(self, label: str):
        with pytest.raises(BadText, match="`label`"):
            RunOptions(label=label).check()

    def test_refuses_more_tenants_than_it_can_look_up(self):
        with pytest.raises(BadRunOptions, match="`tenantIds`"):
            RunOptions(tenant_ids=[new_id()] * (TENANTS_NAMED_MAX + 1)).check()


class TestWaveSizes:
    @pytest.mark.parametrize(
        ("waves", "total", "sizes"),
        [
            ([1, "10%", "100%"], 200, [1, 20, 200]),
            ([1, "10%", "100%"], 5, [1, 5]),
            (["1%"], 7, [1]),
            (["10%"], 101, [11]),
            ([1, 10, 100], 12, [1, 10, 12]),
            ([3, 3, 5], 10, [3, 5]),
            ([10**30], 4, [4]),
            ([1, "10%"], 0, []),
        ],
        ids=str,
    )
    def test_are_numbers_of_tenants(self, waves: list[Amount], total: int, sizes: list[int]):
        """Percentages are rounded up, and there are never more tenants than there are."""
        assert [size for size, _ in RunOptions(waves=waves).sized_waves(total)] == sizes

    def test_may_not_decrease_when_numbers_and_percentages_meet(self):
        with pytest.raises(BadRunOptions, match="of 50 these are 10, 5"):
            RunOptions(waves=[10, "10%"]).sized_waves(50)

    def test_are_none_without_waves(self):
        assert RunOptions().sized_waves(10) == []


class TestFailuresMax:
    @pytest.mark.parametrize(
        ("amount", "total", "most"),
        [
            (None, 10, None),
            (0, 10, 0),
            (3, 10, 3),
            (30, 10, 10),
            ("5%", 10, 1),
            ("5%", 200, 10),
            ("0%", 200, 0),
            ("5%", 0, 0),
        ],
    )
    def test_is_a_number_of_tenants(self, amount: Amount | None, total: int, most: int | None):
        assert RunOptions(max_failures=amount).failures_max(total) == most


class TestHolds:
    @pytest.mark.parametrize(
        ("hold", "total", "holds"),
        [
            (False, 50, []),
            (True, 50, [1, 2]),
            ("check", 50, [1, 2]),
            ([2], 50, [2]),
            ([3], 50, []),  # nothing follows the last wave
            ([2], 5, [1]),  # here, 10% is the first tenant, too
            (True, 1, []),
        ],
    )
    def test_are_after_the_waves_that_there_are(self, hold: Hold, total: int, holds: list[int]):
        assert RunOptions(waves=[1, "10%", "100%"], hold=hold).holds(total) == holds
