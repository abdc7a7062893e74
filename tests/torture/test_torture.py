"""The short version of `make torture`: a little of everything that it does.

What it says about rare moments is little; `docs/reliability.md` has the figures of the whole.
"""

import random
import secrets
from pathlib import Path

import pytest

from harness.torture.__main__ import CHECKS
from harness.torture.scale import SHORT
from harness.torture.trial import Trial

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", CHECKS)
def test_holds(name: str, tmp_path: Path, postgres_url: str, capsys: pytest.CaptureFixture[str]):
    """Whatever the check does on both engines, it finds no fault."""
    seed = secrets.token_hex(4)
    chance = random.Random(f"{seed} {name}")  # noqa: S311 - it chooses moments

    found = CHECKS[name](Trial(tmp_path, postgres_url, SHORT, chance))

    faults = [fault for one in found for fault in one.faults]
    assert faults == [], f"make torture CHECK={name} SHORT=1 SEED={seed}\n{capsys.readouterr()}"
