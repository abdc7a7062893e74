"""Resident memory of a server that has migrated a few tenants, and many."""

from harness.bench.figures import Figure
from harness.bench.fleet.yard import Yard
from harness.driver import say
from harness.fleet.ours import Ours, call_migrate_all, set_active
from harness.processes import serving

RUNS = 3


def on_sqlite(yard: Yard) -> list[Figure]:
    """Measure with files."""
    return [_measure(yard, "SQLite", yard.on_sqlite, yard.plan.sqlite)]


def on_postgresql(yard: Yard) -> list[Figure]:
    """Measure with databases."""
    return [_measure(yard, "PostgreSQL", yard.many_on_postgresql, yard.plan.many)]


def _measure(yard: Yard, engine: str, ours: Ours, many: int) -> Figure:
    few = yard.plan.few
    found: dict[int, list[float]] = {}
    for count in (few, many):
        set_active(ours, count)
        ours.tenants.reset(count)
        found[count] = _resident(yard, ours)
        say(f"memory, {engine}, {count:,} tenants: {found[count][-1]:.0f} MiB")
    before = found[few][0]
    return Figure(
        work=f"{engine}, resident memory of a server: idle → {few:,} tenants migrated → {many:,}",
        value=None,
        shown=f"{before:.0f} → {found[few][1]:.0f} → {found[many][1]:.0f} MiB",
        notes=[f"a server of its own for each; after {RUNS} more runs {found[many][-1]:.0f} MiB"],
    )


def _resident(yard: Yard, ours: Ours) -> list[float]:
    """Return the MiB of a new server, after a run, and after some more."""
    with serving(yard.folder, ours.environment()) as process:
        found = [process.resident_mib()]
        call_migrate_all(process.port, ours)
        found.append(process.resident_mib())
        for _ in range(RUNS):
            call_migrate_all(process.port, ours)
        found.append(process.resident_mib())
    return found
