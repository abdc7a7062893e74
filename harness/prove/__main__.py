"""``make prove``: show every promise, print a line for each, end with 1 if one did not hold."""

import argparse
import faulthandler
import os
import random
import sys
import time
import traceback
from collections.abc import Sequence

from harness.driver import WRONG_USE, at_most, begin, say, scratch, seed_of
from harness.prove import record
from harness.prove.promise import NotShown, Promise, Stage, planting
from harness.prove.promises import PROMISES
from harness.prove.record import HELD, NOT_HELD, NOT_SHOWN, TARGET, Row

OVERTIME_SECONDS = 120


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options.only, options.plant)
    if chosen is None:
        return WRONG_USE
    if options.record and (options.short or options.plant):
        say("Only whole scenarios without a planted fault are recorded.")
        return WRONG_USE
    if options.plant:
        # The processes that scenarios fork or start inherit it.
        os.environ.update(planting(*options.plant.split(",")))
    begin()
    seed = seed_of(options)
    machine, rows = record.machine(), []
    for promise in chosen:
        row = _show(promise, seed, short=options.short, plant=options.plant)
        print(row.line, flush=True)
        if options.record:
            record.put([row], machine)
        rows.append(row)
    held, not_held, not_shown = (
        sum(row.verdict == verdict for row in rows) for verdict in (HELD, NOT_HELD, NOT_SHOWN)
    )
    print(f"{held} held, {not_held} not held, {not_shown} not shown here", flush=True)
    return 1 if not_held else 0


def _show(promise: Promise, seed: str, *, short: bool, plant: str) -> Row:
    began = time.monotonic()
    # One that cannot be interrupted is ended with the process, and its threads are printed.
    faulthandler.dump_traceback_later(promise.seconds_max + OVERTIME_SECONDS, exit=True)
    chance = random.Random(f"{seed} {promise.name}")  # noqa: S311 - it chooses moments
    done, found = "", ""
    try:
        with scratch(f"prove-{promise.name}") as folder:
            faults = [one for one in plant.split(",") if one]
            stage = Stage(folder, chance, short, faults)
            try:
                with at_most(promise.seconds_max):
                    figure = promise.check(stage)
            finally:
                stage.close()
        verdict = NOT_HELD if figure.faults else HELD
        done, found = figure.done, figure.text
    except NotShown as why:
        verdict, found = NOT_SHOWN, str(why)
    except Exception as error:  # noqa: BLE001 - a scenario that breaks has not shown the promise
        verdict, found = NOT_HELD, f"the scenario broke off: {error!r}"[:400]
        traceback.print_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return Row(promise, done, found, verdict, time.monotonic() - began)


def _chosen(names: str, plant: str) -> Sequence[Promise] | None:
    wanted = [one.strip().upper() for one in (names or plant).split(",") if one.strip()]
    known = {promise.name: promise for promise in PROMISES}
    if missing := [one for one in wanted if one not in known]:
        say(f"No such promise: {', '.join(missing)}; there are P1 to P42.")
        return None
    return [known[one] for one in wanted] or PROMISES


def _parser() -> argparse.ArgumentParser:
    parser = TARGET.parser(__doc__, [promise.name for promise in PROMISES])
    parser.add_argument("--plant", default="", help="such as P3: it must then end as not held")
    parser.add_argument("--seed", help="of what is left to chance; it is printed")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
