"""A fleet of SQLite files: two pending revisions, and none."""

from collections.abc import Callable, Sequence
from functools import partial

from harness.bench.figures import Bound, Figure
from harness.bench.fleet import raw
from harness.bench.fleet.rounds import Contender, shown, take_turns
from harness.bench.fleet.yard import Yard
from harness.fleet.cores import meter

THREADS = 4
# Reading a file is so short that threads only cost: the limit is the faster of the two.
LIMITS = (f"raw sqlite3, {THREADS} threads", "raw sqlite3, 1 thread")
OURS = "Tenantry, 4 at once"
LIVE = "Tenantry, live, 4 at once"
LOOP = "Alembic, a loop in one process"


def pending(yard: Yard) -> list[Figure]:
    """Measure two pending revisions."""
    return [_measure(yard, "pending", Bound(1.4, 1.2, at_least=False), at_head=False)]


def nothing(yard: Yard) -> list[Figure]:
    """Measure a fleet that is at the head."""
    return [_measure(yard, "nothing pending", Bound(1.4, 1.2, at_least=False), at_head=True)]


def _measure(yard: Yard, what: str, bound: Bound, *, at_head: bool) -> Figure:
    seen = take_turns(
        f"SQLite, {what}", _contenders(yard, at_head=at_head), yard.plan.rounds, meter()
    )
    limit = seen.quickest(*LIMITS)
    ratio = seen.over(OURS, limit)
    return Figure(
        work=f"SQLite, {yard.plan.sqlite:,} files, {what} / the limit",
        value=ratio,
        shown=f"{ratio:.2f}",
        rate=f"{shown(seen.median(OURS))} ms, limit {shown(seen.median(limit))} ms",
        bound=bound,
        notes=[f"the limit is {limit}", *seen.lines(limit)],
    )


def _contenders(yard: Yard, *, at_head: bool) -> list[Contender]:
    ours, tenants, count = yard.on_sqlite, yard.on_sqlite.tenants, yard.plan.sqlite

    def over_files(name: str, run: Callable[[Sequence[str]], float], many: int) -> Contender:
        return Contender(
            name,
            many,
            reset=partial(tenants.reset, many, at_head=at_head),
            run=lambda: run(tenants.urls[:many]),
            check=partial(tenants.check_at_head, many),
        )

    live = over_files(LIVE, lambda _: ours.migrate_all(count, live=True).seconds, count)
    return [
        over_files(LIMITS[0], partial(raw.on_sqlite, at_once=THREADS), count),
        over_files(OURS, lambda _: ours.migrate_all(count).seconds, count),
        over_files(LIMITS[1], partial(raw.on_sqlite, at_once=1), count),
        *([] if at_head else [live]),
        over_files(LOOP, yard.alembic.in_a_loop, yard.plan.looped),
    ]
