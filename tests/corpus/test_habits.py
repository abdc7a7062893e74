"""The table of practices in the documents is true: each row names shapes that prove it."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.corpus import ours, project
from tests.corpus.expected import DIFFERENCES, REFUSALS
from tests.corpus.shape import BOTH, SQLITE, Shape
from tests.corpus.shapes import SHAPES

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "bring-your-own-migrations.md"
HABITS_MIN = 40
VERDICTS = ("works", "works live", "differs", "rejected")


@dataclass(frozen=True)
class Habit:
    """A row of the table."""

    name: str
    here: str
    shapes: list[str]

    @property
    def verdict(self) -> str:
        """The support, without the advice."""
        return re.split("[:;,]", self.here)[0].strip()


def _habits() -> list[Habit]:
    section = (
        PAGE.read_text().partition("## Practices of Alembic projects")[2].partition("\n## ")[0]
    )
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [
        Habit(name.strip(), here.strip(), re.findall(r"`(\w+)`", shapes))
        for name, here, shapes in rows[1:]
    ]


HABITS = _habits()


def _listed(names: dict[tuple[str, str], str], one: Shape) -> bool:
    return any((engine, one.name) in names for engine in BOTH)


def test_the_table_has_some_forty_rows_with_a_verdict_each():
    assert len(HABITS) >= HABITS_MIN
    assert {habit.verdict for habit in HABITS} == set(VERDICTS)


def test_every_refusal_and_every_difference_is_in_the_table():
    named = {name for habit in HABITS for name in habit.shapes}

    assert {name for _, name in [*REFUSALS, *DIFFERENCES]} <= named


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: re.sub(r"\W+", "_", habit.name)[:40])
def test_a_row_says_what_its_shapes_do(habit: Habit, tmp_path: Path):
    shapes = [SHAPES[name] for name in habit.shapes]
    assert shapes

    for one in shapes:
        may_be_refused = _listed(REFUSALS, one) or bool(one.loses | one.fails & SQLITE)
        if habit.verdict == "rejected":
            assert may_be_refused, one.name
        else:
            assert not _listed(REFUSALS, one), one.name
            assert _listed(DIFFERENCES, one) == (habit.verdict == "differs"), one.name
    if habit.verdict == "works live":
        for one in shapes:
            ini = project.write(one, tmp_path / one.name)
            assert ours.live_revisions(ini, one.engines, one.driver), one.name
    if habit.here == "works":
        for one in shapes:
            ini = project.write(one, tmp_path / one.name)
            live = [ours.live_revisions(ini, {engine}, one.driver) for engine in one.engines]
            assert not all(live), one.name
