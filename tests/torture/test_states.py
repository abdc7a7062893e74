"""The short version of `make states`: a few walks through the states of tenants."""

import random

import pytest

from harness.states.walks import walk

WALKS, STEPS = 2, 30


@pytest.mark.slow
def test_are_as_the_model_predicts(engine: str, request: pytest.FixtureRequest):
    """A walk that fails is printed."""
    seed = random.SystemRandom().getrandbits(32)

    done = walk(
        "" if engine == "sqlite" else request.getfixturevalue("postgres_url"),
        seed,
        walks=WALKS,
        steps=STEPS,
    )

    assert done.total() > WALKS
