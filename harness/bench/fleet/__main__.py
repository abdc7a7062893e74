"""``make bench-fleet``: measure, print the table, end with 1 if a figure is not accepted."""

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.bench.figures import Figure
from harness.bench.fleet.peers import dbmate
from harness.bench.fleet.rounds import show_progress
from harness.bench.fleet.rows import ROWS
from harness.bench.fleet.yard import Plan, Yard
from harness.bench.report import Report
from harness.machine import describe
from tenantry.kit.clock import utc_now

PACKAGES = ("asyncpg", "sqlalchemy", "alembic", "psycopg", "django", "django-tenants", "uvloop")


def main(arguments: Sequence[str]) -> int:
    """Run the rows that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [row for row in ROWS if any(row.startswith(p) for p in options.rows.split(","))]
    if not chosen:
        print(f"No row begins with {options.rows}; there are {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    if options.record and (len(chosen) < len(ROWS) or options.quick):
        print("Only a whole run is recorded: all rows, and not the quick ones.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures: dict[str, Sequence[Figure]] = {}
    with _scratch(options.scratch) as folder, ExitStack() as stack:
        machine = [
            *describe(folder, PACKAGES),
            f"dbmate {dbmate.version()}; PostgreSQL and who migrates share the cores",
        ]
        yard = Yard(_plan(options), folder, stack)
        for row in chosen:
            began = time.monotonic()
            try:
                figures[row] = ROWS[row](yard)
            except Exception:  # noqa: BLE001 - a broken peer must not cost the other rows
                show_progress(f"{row} is broken:\n{traceback.format_exc()}")
                continue
            figures_shown = "; ".join(f"{one.work}: {one.shown} {one.mark}" for one in figures[row])
            show_progress(f"{row} ({time.monotonic() - began:.0f} s): {figures_shown}")
    report = Report(
        f"{utc_now():%Y-%m-%d %H:%M} UTC", _command(options), machine, figures, "bench-fleet"
    )
    print(report.text())
    if options.json:
        report.write_json(options.json)
    broken = [row for row in chosen if row not in figures]
    if broken:
        show_progress(f"Broken, and so nothing is recorded: {', '.join(broken)}.")
    elif options.record:
        report.record()
    return 1 if broken or report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harness.bench.fleet", description=__doc__)
    parser.add_argument(
        "--rows", default="", help=f"beginnings of names, with commas between: {', '.join(ROWS)}"
    )
    parser.add_argument("--quick", action="store_true", help="few tenants, and less certain")
    parser.add_argument("--rounds", type=int, help="of every contender")
    parser.add_argument("--tenants", type=int, help="on PostgreSQL")
    parser.add_argument("--scratch", type=Path, help="a folder on a disk, for the databases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--record", action="store_true", help="write them into the document")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    quick: bool = options.quick
    return Plan(
        rounds=options.rounds or 3,
        postgresql=options.tenants or (30 if quick else 200),
        sqlite=100 if quick else 1000,
        many=100 if quick else 1000,
        few=20 if quick else 100,
        commands=4 if quick else 12,
        looped=30 if quick else 200,
    )


def _command(options: argparse.Namespace) -> str:
    """Return what was typed, as `make` takes it."""
    words = ["make", "bench-fleet"]
    words += [f"N={options.tenants}"] if options.tenants else []
    words += ["QUICK=1"] if options.quick else []
    words += [f"ROW={options.rows}"] if options.rows else []
    more = [f"--rounds {options.rounds}"] if options.rounds else []
    more += [f"--scratch {options.scratch}"] if options.scratch else []
    more += ["--record"] if options.record else []
    return shlex.join([*words, *([f"BENCH={' '.join(more)}"] if more else [])])


@contextmanager
def _scratch(parent: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tenantry-fleet-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
