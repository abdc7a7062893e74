"""``make faults``: let each call of the system fail; end with 1 if something did not hold."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from harness.driver import WRONG_USE, Target, begin, find, scratch, seed_of
from harness.faults.lanes import Lane, opened
from harness.faults.operations import OPERATIONS, Operation
from harness.faults.sweep import Choice, sweep
from harness.finding import Finding
from harness.machine import describe
from harness.processes import ROOT
from testkit.postgres import memory

COLUMNS = ["operation, on SQLite unless it is said", "calls", "what was found", ""]
PACKAGES = ("sqlalchemy", "alembic", "uvloop")
SHORT_CALLS = 2
LANES = 4
OPERATION_SECONDS_MAX = 7_200
TARGET = Target(
    "faults",
    ROOT / "docs" / "reliability.md",
    {
        "only": "OPERATION",
        "short": "SHORT",
        "seed": "SEED",
        "stride": "STRIDE",
        "call": "CALL",
        "lanes": "LANES",
    },
    "FAULTS",
    records_parts=True,
)


def main(arguments: Sequence[str]) -> int:
    """Sweep over the operations that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = TARGET.choose(options, [one.name for one in OPERATIONS])
    if not chosen:
        return WRONG_USE
    begin()
    choice = Choice(
        seed_of(options),
        every=options.every,
        sample=SHORT_CALLS if options.short else None,
        stride=options.stride or 1,
        call=options.call,
    )
    found: list[Finding] = []
    count = options.lanes or LANES
    with scratch("faults", memory()) as folder, opened(folder, count) as lanes:
        about = [TARGET.about(options, f"seed {choice.seed}"), *describe(folder, PACKAGES)]
        for operation in (one for one in OPERATIONS if one.name in chosen):
            check = partial(_check, operation, lanes, choice, options.messages)
            found += find(operation.name, check, OPERATION_SECONDS_MAX)
    return TARGET.conclude(options, about, COLUMNS, found)


def _check(
    operation: Operation,
    lanes: Sequence[Lane],
    choice: Choice,
    shows: bool,  # noqa: FBT001 - called once
) -> list[Finding]:
    swept = sweep(operation, lanes, choice)
    missed = f", {swept.missed} not reached" if swept.missed else ""
    tried = f"{swept.trials} tried{missed}, {swept.errors} errors, {swept.repeated} repeated"
    said = sorted(swept.messages.items(), key=lambda one: -one[1])
    return [
        Finding(
            name=swept.name,
            check=swept.name,
            must=str(swept.calls),
            found=f"{tried}, faults {len(swept.faults)}",
            faults=swept.faults,
            notes=[f"{count} times: {text}" for text, count in said] if shows else [],
        )
    ]


def _parser() -> argparse.ArgumentParser:
    parser = TARGET.parser(__doc__, [one.name for one in OPERATIONS])
    parser.add_argument("--seed", help="of what is left to chance; it is printed")
    parser.add_argument("--every", action="store_true", help="each call with each of its errors")
    parser.add_argument("--stride", type=int, help="only each so many of SQLite's pages")
    parser.add_argument("--call", default="", help="only this one, such as `pwrite 17`")
    parser.add_argument("--lanes", type=int, help=f"so many at the same time; else {LANES}")
    parser.add_argument("--messages", action="store_true", help="list what was said")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
