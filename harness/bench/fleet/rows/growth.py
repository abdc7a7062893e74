"""Whether the last tenants of a long run are slower than the first."""

import statistics
from collections.abc import Sequence
from datetime import datetime

from harness.bench.figures import Bound, Figure
from harness.bench.fleet.yard import Yard
from harness.driver import say
from harness.fleet.ours import Ours


def on_sqlite(yard: Yard) -> list[Figure]:
    """Measure with files."""
    return [_measure("SQLite", yard.on_sqlite, yard.plan.sqlite, yard.plan.rounds)]


def on_postgresql(yard: Yard) -> list[Figure]:
    """Measure with databases."""
    return [_measure("PostgreSQL", yard.many_on_postgresql, yard.plan.many, yard.plan.rounds)]


def _measure(engine: str, ours: Ours, count: int, rounds: int) -> Figure:
    ratios, rates = [], []
    for number in range(rounds):
        ours.tenants.reset(count)
        ran = ours.migrate_all(count)
        ratios.append(_last_over_first(ran.ends))
        rates.append(count / ran.seconds)
        say(f"growth, {engine}, round {number + 1} of {rounds}: {ratios[-1]:.2f}")
    ratio, tenth = statistics.median(ratios), count // 10
    return Figure(
        work=f"{engine}: the last {tenth} of {count:,} tenants / the first {tenth} after warm-up",
        value=ratio,
        shown=f"{ratio:.2f}",
        rate=f"{statistics.median(rates):,.0f} tenants a second",
        bound=Bound(1.25, 1.05, at_least=False),
        notes=[f"{min(ratios):.2f} to {max(ratios):.2f}; the warm-up is the {tenth} before"],
    )


def _last_over_first(ends: Sequence[datetime]) -> float:
    tenth = len(ends) // 10
    last = ends[-1] - ends[-1 - tenth]
    first = ends[2 * tenth - 1] - ends[tenth - 1]
    return last / first
