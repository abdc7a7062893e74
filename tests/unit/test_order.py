"""How a session says what runs it again."""

import shlex

import pytest

from tests.order import History

PASSED, FAILED = "tests/unit/test_a.py::test_a", "tests/unit/test_b.py::TestB::test_b[it's $1]"
LATER = "tests/unit/test_c.py::test_c"


def history() -> History:
    history = History(4711, "not slow")
    for test in (PASSED, FAILED, LATER):
        outcome = "failed" if test == FAILED else "passed"
        history.pytest_runtest_logreport(
            pytest.TestReport(test, ("", 0, ""), {}, outcome, None, "call")  # type: ignore[arg-type]
        )
    return history


def test_the_last_line_has_the_seed():
    assert History(4711, "").lines() == ["order of tests: make test SEED=4711"]


def test_a_failed_test_is_run_again_alone():
    _, alone, *_ = history().lines()

    *make, chosen = shlex.split(alone)
    assert make == ["make", "test", "SEED=4711"]
    assert shlex.split(chosen.replace(r"\$\$", "$").removeprefix("T=")) == [FAILED]


def test_a_failed_test_is_run_again_after_what_its_process_had_run():
    _, _, again, _ = history().lines()

    assert again.endswith("-m 'not slow' tests/unit/test_a.py tests/unit/test_b.py\"")
