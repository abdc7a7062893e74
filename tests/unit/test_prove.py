"""The promises that `make prove` shows: each once, each with a fault that it must find."""

import re
from pathlib import Path

import pytest

from harness.prove import record
from harness.prove.__main__ import main
from harness.prove.plants import AROUND, INSIDE, OUTSIDE
from harness.prove.promise import Figure, Promise, Stage
from harness.prove.promises import PROMISES
from harness.prove.record import HELD, NOT_HELD, Row

PAGE = (
    "# Trust\n\n<!-- Written by `make prove`: begin -->\n\n<!-- Written by `make prove`: end -->\n"
)


def nothing(_stage: Stage) -> Figure:
    return Figure("nothing", "nothing")


def a_row(number: int, verdict: str, found: str = "0 faults") -> Row:
    promise = Promise(number, f"Sentence {number}.", nothing, "a fault")
    return Row(promise, "much | was done", found, verdict, 1.0)


class TestPromises:
    def test_are_42_in_their_order(self):
        """No number is missing, and none is there twice."""
        assert [promise.number for promise in PROMISES] == list(range(1, 43))

    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
    def test_can_be_seen_to_fail(self, promise: Promise):
        """Each has a fault, which is described and planted in exactly one place."""
        assert promise.plant
        assert sum(promise.name in where for where in (AROUND, INSIDE, OUTSIDE)) == 1

    def test_refuse_an_unknown_name(self, capsys: pytest.CaptureFixture[str]):
        """An unknown promise is an error, not a run without faults."""
        assert main(["--only", "P43"]) == 2
        assert "P43" in capsys.readouterr().err

    @pytest.mark.parametrize("option", ["--short", "--plant=P3"])
    def test_are_recorded_whole_alone(self, option: str):
        """Neither the small version nor a planted fault gets into the document."""
        assert main(["--record", "--only", "P3", option]) == 2


class TestRecord:
    @pytest.fixture(name="page")
    def _page(self, tmp_path: Path) -> Path:
        page = tmp_path / "trust.md"
        page.write_text(PAGE)
        return page

    def test_replaces_the_row_of_one_promise(self, page: Path):
        """The rows of other promises stay as they were."""
        record.put([a_row(7, HELD), a_row(10, HELD)], [], page)
        record.put([a_row(7, NOT_HELD, "1 fault"), a_row(2, HELD)], [], page)

        rows = re.findall(r"^\| (P\d+) .*\| (held|NOT HELD) +\|", page.read_text(), re.MULTILINE)
        assert rows == [("P2", "held"), ("P7", "NOT HELD"), ("P10", "held")]

    def test_keeps_what_has_a_bar_in_it(self, page: Path):
        """A bar in a text does not make another column."""
        record.put([a_row(7, HELD)], [], page)
        record.put([a_row(8, HELD)], [], page)

        assert page.read_text().count("much / was done") == 2
