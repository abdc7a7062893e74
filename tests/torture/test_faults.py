"""The short version of `make faults`: a few of the calls that it lets fail."""

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.faults.lanes import Lane, opened
from harness.faults.operations import OPERATIONS, Operation
from harness.faults.sweep import Choice, sweep

CALLS = 1
"""Of each kind: opens, writes, writes of pages, syncs, renames, truncations."""
SWEEPS_MAX = 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds what lets calls fail"),
]


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lane]]:
    with opened(tmp_path_factory.mktemp("faults"), 1) as made:
        yield made


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_of_the_system_lose_nothing(
    operation: Operation, lanes: list[Lane], capsys: pytest.CaptureFixture[str]
):
    """With a slower process, there are more messages; so a late one is not always reached."""
    for _ in range(SWEEPS_MAX):
        seed = secrets.token_hex(4)
        swept = sweep(operation, lanes, Choice(seed, sample=CALLS))

        command = f"make faults OPERATION='{operation.name}' SHORT=1 SEED={seed}"
        assert swept.faults == [], f"{command}\n{capsys.readouterr()}"
        if swept.trials > 0:
            break
    assert swept.trials > 0


def test_let_no_tenant_stay_read_only(lanes: list[Lane]):
    """SQLite opens a file for reading when it cannot be opened for writing for a moment."""
    (operation,) = (one for one in OPERATIONS if one.name == "post")

    swept = sweep(operation, lanes, Choice("", call="open 1"))

    assert (swept.trials, swept.errors) == (3, 1), "only the failure that lasts ends it"


def test_are_reported_with_the_call_and_what_did_not_hold(lanes: list[Lane]):
    (create,) = (one for one in OPERATIONS if one.name == "create")
    wrong = replace(create, failed=lambda _: ["a database is lost"])

    swept = sweep(wrong, lanes, Choice("", call="open 1"))

    assert (swept.trials, swept.errors) == (3, 3)
    assert all(one.startswith("open 1") for one in swept.faults)
    assert [one.rpartition(": ")[2] for one in swept.faults] == ["a database is lost"] * 3
