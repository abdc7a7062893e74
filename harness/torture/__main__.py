"""``make torture``: try to break it, print the table, end with 1 if something did not hold."""

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.driver import WRONG_USE, Target, begin, find, scratch, seed_of
from harness.finding import Finding
from harness.machine import describe
from harness.processes import ROOT
from harness.torture import (
    attached,
    broken,
    catalog,
    catalog_moves,
    copies,
    crowd,
    hangups,
    idle,
    kills,
    machines,
    traffic,
)
from harness.torture.scale import SHORT, WHOLE
from harness.torture.trial import Trial
from testkit.postgres import own_server

COLUMNS = ["what is done", "what must hold", "what was found", ""]
PACKAGES = ("asyncpg", "sqlalchemy", "alembic", "uvloop")
# A check that hangs is a fault; and one that then cannot be ended is not waited for.
CHECK_SECONDS_MAX = 1_200
SECONDS_MAX = 2_700
TARGET = Target(
    "torture",
    ROOT / "docs" / "reliability.md",
    {"only": "CHECK", "short": "SHORT", "seed": "SEED"},
    "TORTURE",
)
CHECKS: Mapping[str, Callable[[Trial], list[Finding]]] = {
    "kills": kills.check,
    "crowd": crowd.check,
    "broken": broken.check,
    "traffic": traffic.check,
    "idle": idle.check,
    "hangups": hangups.check,
    "catalog": catalog.check,
    "copies": copies.check,
    "moved-catalog": catalog_moves.check,
    "fleet-kills": attached.check,
    "fleet-machines": machines.check,
}


def main(arguments: Sequence[str]) -> int:
    """Run the checks that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = TARGET.choose(options, list(CHECKS))
    if not chosen:
        return WRONG_USE
    begin(SECONDS_MAX)
    seed = seed_of(options)
    began = time.monotonic()
    with scratch("torture") as folder, own_server() as server:
        machine = describe(folder, PACKAGES)
        scale = SHORT if options.short else WHOLE

        def check(name: str) -> list[Finding]:
            below = folder / name
            below.mkdir()
            chance = random.Random(f"{seed} {name}")  # noqa: S311 - it chooses moments
            return CHECKS[name](Trial(below, server.url, scale, chance))

        found = [f for one in chosen for f in find(one, partial(check, one), CHECK_SECONDS_MAX)]
    took = f"{(time.monotonic() - began) / 60:.1f} minutes"
    about = [TARGET.about(options, f"seed {seed}", took), *machine]
    return TARGET.conclude(options, about, COLUMNS, found)


def _parser() -> argparse.ArgumentParser:
    parser = TARGET.parser(__doc__, CHECKS)
    parser.add_argument("--seed", help="of what is left to chance; it is printed")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
