"""``make bench-fleet``: measure, print the table, end with 1 if a figure is not accepted."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from harness.bench.fleet.peers import dbmate
from harness.bench.fleet.rows import ROWS
from harness.bench.fleet.yard import Plan, Yard
from harness.bench.measure import DOCUMENT, measure, parser_of
from harness.driver import WRONG_USE, Target, begin, scratch
from harness.machine import describe

PACKAGES = ("asyncpg", "sqlalchemy", "alembic", "psycopg", "django", "django-tenants", "uvloop")
VARIABLES = {"tenants": "N", "short": "QUICK", "only": "ROW"}
TARGET = Target("bench-fleet", DOCUMENT, VARIABLES, "BENCH")


def main(arguments: Sequence[str]) -> int:
    """Run the rows that *arguments* choose; return the exit status."""
    options = parser_of(TARGET, __doc__, list(ROWS)).parse_args(arguments)
    chosen = TARGET.choose(options, list(ROWS))
    if not chosen:
        return WRONG_USE
    begin()
    short: bool = options.short
    plan = Plan(
        rounds=options.rounds or 3,
        postgresql=options.tenants or (30 if short else 200),
        sqlite=100 if short else 1000,
        many=100 if short else 1000,
        few=20 if short else 100,
        commands=4 if short else 12,
        looped=30 if short else 200,
        attached=options.tenants or (30 if short else 900),
    )
    with scratch("fleet", options.scratch) as folder, ExitStack() as stack:
        machine = [
            *describe(folder, PACKAGES),
            f"dbmate {dbmate.version()}; PostgreSQL and who migrates share the cores",
        ]
        yard = Yard(plan, folder, stack)
        return measure(TARGET, options, {one: ROWS[one] for one in chosen}, yard, machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
