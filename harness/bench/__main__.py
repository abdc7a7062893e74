"""``make bench``: measure, print the table, and end with 1 if a figure is not accepted."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.bench.bench import Bench, Plan
from harness.bench.interleave import Pace
from harness.bench.measure import DOCUMENT, measure, parser_of
from harness.bench.rows import ROWS
from harness.driver import WRONG_USE, Target, begin, scratch
from harness.machine import be_urgent, describe, share_cores

TARGET = Target("bench", DOCUMENT, {"only": "ROW", "short": "QUICK"}, "BENCH")


def main(arguments: Sequence[str]) -> int:
    """Run the rows that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = TARGET.choose(options, list(ROWS))
    if not chosen:
        return WRONG_USE
    begin()
    if options.urgent:
        be_urgent()
    cores = share_cores()
    with scratch("bench", options.scratch) as folder, ExitStack() as stack:
        machine = [
            *describe(folder),
            f"server on core {cores.server}, load and PostgreSQL on {sorted(cores.load)}",
        ]
        bench = Bench(_plan(options), cores, folder, stack)
        return measure(TARGET, options, {one: ROWS[one] for one in chosen}, bench, machine)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(TARGET, __doc__, list(ROWS))
    parser.add_argument("--seconds", type=float, help="of a window of requests")
    parser.add_argument("--no-peers", action="store_true", help="without FastAPI and by hand")
    parser.add_argument(
        "--before", type=Path, help="another checkout, measured in turn with this one"
    )
    parser.add_argument("--posts", type=int, help="of the rows of versions")
    parser.add_argument("--megabytes", type=int, help="of the rows of copies")
    parser.add_argument(
        "--profile", type=int, default=0, metavar="SECONDS", help="profile Tenantry with py-spy"
    )
    parser.add_argument(
        "--urgent", action="store_true", help="before all others on the machine; for root"
    )
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    short: bool = options.short
    rounds = options.rounds or (3 if short else 5)
    seconds = options.seconds or (1.0 if short else 3.0)
    return Plan(
        pace=Pace(rounds, seconds, 0.3 if short else 0.7),
        login_seconds=2.0 if short else 6.0,
        storm_rounds=rounds,
        storm_seconds=1.5 if short else 4.0,
        provisioned=6 if short else 25,
        memory_sqlite=options.tenants or (100 if short else 1000),
        memory_postgresql=options.tenants or (50 if short else 300),
        crowd=options.tenants or (50_000 if short else 1_000_000),
        versioned_posts=options.posts or (10_000 if short else 100_000),
        copied_mb=options.megabytes or (100 if short else 1_000),
        with_peers=not options.no_peers,
        before=options.before,
        profile_seconds=options.profile,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
