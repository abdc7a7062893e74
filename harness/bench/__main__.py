"""``make bench``: measure, print the table, and end with 1 if a figure is not accepted."""

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.bench.bench import Bench, Plan
from harness.bench.figures import Figure
from harness.bench.interleave import Pace
from harness.bench.report import Report
from harness.bench.rows import ROWS
from harness.machine import be_urgent, describe, share_cores
from harness.wire import WrongAnswer
from tenantry.kit.clock import utc_now


def main(arguments: Sequence[str]) -> int:
    """Run the rows that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [row for row in ROWS if any(row.startswith(p) for p in options.rows.split(","))]
    if not chosen:
        print(f"No row begins with {options.rows}; there are {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    if options.record and len(chosen) < len(ROWS):
        print("Only a run of all rows is recorded.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.urgent:
        be_urgent()
    cores = share_cores()
    figures: dict[str, Sequence[Figure]] = {}
    with _scratch(options.scratch) as folder, ExitStack() as stack:
        machine = [
            *describe(folder),
            f"server on core {cores.server}, load and PostgreSQL on {sorted(cores.load)}",
        ]
        bench = Bench(_plan(options), cores, folder, stack)
        for row in chosen:
            began = time.monotonic()
            try:
                figures[row] = ROWS[row](bench)
            except WrongAnswer as error:  # the other rows are still worth their hour
                figures[row] = [Figure.of_end(row, str(error))]
            _tell(row, time.monotonic() - began, figures[row])
    command = shlex.join(["python", "-m", "harness.bench", *arguments])
    report = Report(f"{utc_now():%Y-%m-%d %H:%M} UTC", command, machine, figures)
    print(report.text())
    if options.json:
        report.write_json(options.json)
    if options.record:
        report.record()
    return 1 if report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harness.bench", description=__doc__)
    parser.add_argument(
        "--rows", default="", help=f"beginnings of names, with commas between: {', '.join(ROWS)}"
    )
    parser.add_argument("--quick", action="store_true", help="shorter, and less certain")
    parser.add_argument("--rounds", type=int, help="of every contender")
    parser.add_argument("--seconds", type=float, help="of a window of requests")
    parser.add_argument("--no-peers", action="store_true", help="without FastAPI and by hand")
    parser.add_argument(
        "--before", type=Path, help="another checkout, measured in turn with this one"
    )
    parser.add_argument("--tenants", type=int, help="of the rows of memory, and of a million")
    parser.add_argument("--megabytes", type=int, help="of the rows of copies")
    parser.add_argument(
        "--profile", type=int, default=0, metavar="SECONDS", help="profile Tenantry with py-spy"
    )
    parser.add_argument(
        "--urgent", action="store_true", help="before all others on the machine; for root"
    )
    parser.add_argument("--scratch", type=Path, help="a folder on a disk, for the databases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--record", action="store_true", help="write them into the document")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    quick: bool = options.quick
    rounds = options.rounds or (3 if quick else 5)
    seconds = options.seconds or (1.0 if quick else 3.0)
    return Plan(
        pace=Pace(rounds, seconds, 0.3 if quick else 0.7),
        login_seconds=2.0 if quick else 6.0,
        storm_rounds=options.rounds or (3 if quick else 5),
        storm_seconds=1.5 if quick else 4.0,
        provisioned=6 if quick else 25,
        memory_sqlite=options.tenants or (100 if quick else 1000),
        memory_postgresql=options.tenants or (50 if quick else 300),
        crowd=options.tenants or (50_000 if quick else 1_000_000),
        copied_mb=options.megabytes or (100 if quick else 1_000),
        with_peers=not options.no_peers,
        before=options.before,
        profile_seconds=options.profile,
    )


@contextmanager
def _scratch(parent: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tenantry-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(row: str, seconds: float, figures: Sequence[Figure]) -> None:
    said = "; ".join(f"{one.shown} {one.mark}" for one in figures)
    print(f"{row} ({seconds:.0f} s): {said}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
