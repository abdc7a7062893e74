"""The lists of what is refused and what differs are short, and hold nothing else."""

from tests.corpus.expected import DIFFERENCES, REFUSALS
from tests.corpus.shape import BOTH
from tests.corpus.shapes import SHAPES

SHAPES_MIN = 150
RUN_PERCENT_MIN = 95


def test_nearly_everything_is_run_that_plain_alembic_runs():
    ran = [
        (engine, one.name)
        for engine in BOTH
        for one in SHAPES.values()
        if engine in one.all_engines - one.fails - one.loses
    ]
    refused = [case for case in ran if case in REFUSALS]

    assert len(SHAPES) >= SHAPES_MIN
    assert 100 * (len(ran) - len(refused)) >= RUN_PERCENT_MIN * len(ran), refused


def test_only_shapes_that_plain_alembic_runs_are_listed():
    for engine, name in [*REFUSALS, *DIFFERENCES]:
        one = SHAPES[name]
        assert engine in one.all_engines - one.fails - one.loses, (engine, name)
