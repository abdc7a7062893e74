"""``make torture``: try to break it, print the table, end with 1 if something did not hold."""

import argparse
import faulthandler
import random
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.finding import Finding
from harness.machine import describe
from harness.processes import ROOT
from harness.report import put_into, table
from harness.torture import (
    broken,
    catalog,
    catalog_moves,
    copies,
    crowd,
    hangups,
    idle,
    kills,
    traffic,
)
from harness.torture.scale import SHORT, WHOLE, Scale
from tenantry.kit.clock import utc_now
from testkit.postgres import own_server

DOCUMENT = ROOT / "docs" / "reliability.md"
COLUMNS = ["what is done", "what must hold", "what was found", ""]
PACKAGES = ("asyncpg", "sqlalchemy", "alembic", "uvloop")
# A check that hangs is a fault; and one that then cannot be ended is not waited for.
CHECK_SECONDS_MAX = 1_200
SECONDS_MAX = 2_700
Progress = Callable[[str], None]
CHECKS: Mapping[str, Callable[[Path, str, Scale, random.Random, Progress], list[Finding]]] = {
    "kills": kills.check,
    "crowd": crowd.check,
    "broken": broken.check,
    "traffic": traffic.check,
    "idle": idle.check,
    "hangups": hangups.check,
    "catalog": catalog.check,
    "copies": copies.check,
    "moved-catalog": catalog_moves.check,
}


def main(arguments: Sequence[str]) -> int:
    """Run the checks that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [one for one in CHECKS if any(one.startswith(p) for p in options.checks.split(","))]
    if not chosen:
        print(f"No check begins so; there are {', '.join(CHECKS)}.", file=sys.stderr)
        return 2
    if options.record and (len(chosen) < len(CHECKS) or options.short):
        print("Only a whole run is recorded: all checks, and not the short ones.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, _give_up)
    faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
    seed = options.seed or secrets.token_hex(4)
    progress(f"seed {seed}")
    began = time.monotonic()
    with _scratch() as folder, own_server() as server:
        machine = describe(folder, PACKAGES)
        scale = SHORT if options.short else WHOLE
        found = {one: _run(one, folder, server.url, scale, seed) for one in chosen}
    took = f"{(time.monotonic() - began) / 60:.1f} minutes"
    about = [
        f"{utc_now():%Y-%m-%d %H:%M} UTC, `{_command(options)}`, seed {seed}, {took}",
        *machine,
    ]
    text = _text(about, [one for many in found.values() for one in many])
    print(text)
    if options.record:
        put_into(DOCUMENT, "torture", text)
    return 1 if any(one.faults for many in found.values() for one in many) else 0


def progress(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


def _run(name: str, folder: Path, server_url: str, scale: Scale, seed: str) -> list[Finding]:
    began = time.monotonic()
    signal.alarm(CHECK_SECONDS_MAX)
    below = folder / name
    below.mkdir()
    chance = random.Random(f"{seed} {name}")  # noqa: S311 - it chooses moments
    try:
        found = CHECKS[name](below, server_url, scale, chance, progress)
    except Exception:  # noqa: BLE001 - one check that cannot be done must not cost the others
        lines = traceback.format_exc().splitlines()
        found = [
            Finding(name=name, check=name, must="", found="it could not be done", faults=lines[-5:])
        ]
    finally:
        signal.alarm(0)
    progress(
        f"{name} ({time.monotonic() - began:.0f} s): "
        + "; ".join(f"{one.name}: {one.found}: {one.mark}" for one in found)
    )
    return found


def _give_up(*_: object) -> None:
    raise TimeoutError(f"not done within {CHECK_SECONDS_MAX} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harness.torture", description=__doc__)
    parser.add_argument(
        "--checks", default="", help=f"beginnings, with commas between: {', '.join(CHECKS)}"
    )
    parser.add_argument("--short", action="store_true", help="a little of everything")
    parser.add_argument("--seed", help="of what is left to chance; it is printed")
    parser.add_argument("--record", action="store_true", help="write the table into the document")
    return parser


def _command(options: argparse.Namespace) -> str:
    words = ["make", "torture"]
    words += [f"CHECK={options.checks}"] if options.checks else []
    words += ["SHORT=1"] if options.short else []
    words += [f"SEED={options.seed}"] if options.seed else []
    return shlex.join([*words, *(["TORTURE=--record"] if options.record else [])])


def _text(about: Sequence[str], findings: Sequence[Finding]) -> str:
    lines = [f"- {line}" for one in findings for line in one.lines]
    return "\n".join(
        [
            *(f"- {line}" for line in about),
            "",
            *table(COLUMNS, [one.cells for one in findings]),
            *(["", *lines] if lines else []),
        ]
    )


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tenantry-torture-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
