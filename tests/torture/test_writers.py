"""The short version of `make writers`: a few rounds of writers of the same posts."""

import random

import pytest

from harness.writers.__main__ import play, told

ROUNDS = 10


@pytest.mark.slow
def test_lose_no_text_and_show_none_early(engine: str, request: pytest.FixtureRequest):
    seed = f"{random.SystemRandom().getrandbits(32):x}"
    url = "" if engine == "sqlite" else request.getfixturevalue("postgres_url")

    found = play(url, seed, rounds=ROUNDS)

    assert found.faults == [], f"make writers SEED={seed}\n{told(found)}"
    assert found.changes["save 200"] > 0
    assert found.sights > 0
