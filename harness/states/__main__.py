"""``make states``: walk through the states of tenants; end with 1 if an answer is not predicted."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from harness.driver import begin, say, seed_of
from harness.fleet.fleets import ENGINE_NAMES
from harness.states.walks import walk
from testkit.postgres import own_server

WALKS, STEPS = 40, 50


def main(arguments: Sequence[str]) -> int:
    """Walk on both engines as *arguments* say; return the exit status."""
    options = _parser().parse_args(arguments)
    begin()
    seed = int(seed_of(options), 16)
    with ExitStack() as stack:
        urls = {"sqlite": "", "postgresql": stack.enter_context(own_server()).url}
        for engine, url in urls.items():
            began = time.monotonic()
            done = walk(url, seed, walks=options.walks, steps=options.steps)
            shown = ", ".join(f"{count} {step}" for step, count in sorted(done.items()))
            took = time.monotonic() - began
            say(
                f"{ENGINE_NAMES[engine]} ({took:.0f} s): {done.total()} steps as predicted: {shown}"
            )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make states", description=__doc__)
    parser.add_argument("--seed", help="of the choices, in hexadecimal, as it was printed")
    parser.add_argument("--walks", type=int, default=WALKS)
    parser.add_argument("--steps", type=int, default=STEPS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
