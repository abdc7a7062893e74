"""``make prove``: show every promise, print a line for each, end with 1 if one did not hold."""

import argparse
import faulthandler
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.prove import record
from harness.prove.promise import NotShown, Promise, Stage, planting
from harness.prove.promises import PROMISES
from harness.prove.record import HELD, NOT_HELD, NOT_SHOWN, Row

OVERTIME_SECONDS = 120


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options.promises, options.plant)
    if chosen is None:
        return 2
    if options.record and (options.short or options.plant):
        print("Only whole scenarios without a planted fault are recorded.", file=sys.stderr)
        return 2
    if options.plant:
        # The processes that scenarios fork or start inherit it.
        os.environ.update(planting(*options.plant.split(",")))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, _give_up)
    seed = options.seed or secrets.token_hex(4)
    print(f"seed {seed}", file=sys.stderr)
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
    signal.alarm(promise.seconds_max)
    chance = random.Random(f"{seed} {promise.name}")  # noqa: S311 - it chooses moments
    done, found = "", ""
    try:
        with _scratch(promise.name) as folder:
            faults = [one for one in plant.split(",") if one]
            stage = Stage(folder, chance, short, faults)
            try:
                figure = promise.check(stage)
            finally:
                signal.alarm(0)
                stage.close()
        verdict = NOT_HELD if figure.faults else HELD
        done, found = figure.done, figure.text
    except NotShown as why:
        verdict, found = NOT_SHOWN, str(why)
    except Exception as error:  # noqa: BLE001 - a scenario that breaks has not shown the promise
        verdict, found = NOT_HELD, f"the scenario broke off: {error!r}"[:400]
        traceback.print_exc()
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    return Row(promise, done, found, verdict, time.monotonic() - began)


def _chosen(names: str, plant: str) -> Sequence[Promise] | None:
    wanted = [one.strip().upper() for one in (names or plant).split(",") if one.strip()]
    known = {promise.name: promise for promise in PROMISES}
    if missing := [one for one in wanted if one not in known]:
        print(f"No such promise: {', '.join(missing)}; there are P1 to P42.", file=sys.stderr)
        return None
    return [known[one] for one in wanted] or PROMISES


def _give_up(*_: object) -> None:
    raise TimeoutError("the scenario is not done in its time")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harness.prove", description=__doc__)
    parser.add_argument("--promises", default="", help="such as P3,P7; all when left out")
    parser.add_argument("--short", action="store_true", help="a small version of everything")
    parser.add_argument("--plant", default="", help="such as P3: it must then end as not held")
    parser.add_argument("--seed", help="of what is left to chance; it is printed")
    parser.add_argument("--record", action="store_true", help="write the rows into the document")
    return parser


@contextmanager
def _scratch(name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"tenantry-prove-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
