"""Resident memory: idle, and after many tenants were touched at random."""

import random
import time

from harness.bench.bench import Bench
from harness.bench.figures import Figure
from harness.bench.load import Load
from harness.bench.rows.requests import module_requests
from harness.wire import Request
from harness.world import Size

SETTLE_SECONDS = 1.0
TOUCHES = 3
SLICE_SECONDS = 0.2
# The same choice in every run.
SEED = 20240229


def on_sqlite(bench: Bench) -> list[Figure]:
    """Measure with files."""
    return [_measure(bench, "sqlite", bench.plan.memory_sqlite)]


def on_postgresql(bench: Bench) -> list[Figure]:
    """Measure with databases on a server."""
    return [_measure(bench, "postgresql", bench.plan.memory_postgresql)]


def _measure(bench: Bench, engine: str, count: int) -> Figure:
    world = bench.new_world(f"{engine}-memory", Size(count))
    requests = module_requests(world)
    chance = random.Random(SEED)  # noqa: S311 - it chooses tenants
    with bench.ours(world) as process:
        time.sleep(SETTLE_SECONDS)
        idle = process.resident_mib()
        after = []
        # If the second time takes as much again, nothing bounds it.
        for _ in range(2):
            order = [*requests, *chance.choices(requests, k=count * (TOUCHES - 1))]
            chance.shuffle(order)
            _touch(process.port, order)
            time.sleep(SETTLE_SECONDS)
            after.append(process.resident_mib())
    name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[engine]
    return Figure(
        work=f"resident memory, {name}: idle → {count:,} tenants touched at random → again",
        value=None,
        shown=f"{idle:.0f} → {after[0]:.0f} → {after[1]:.0f} MiB",
        notes=[f"each tenant at least once, {TOUCHES * count:,} requests each time"],
    )


def _touch(port: int, order: list[Request]) -> None:
    with Load(port, order) as load:
        answered = 0
        while answered < len(order):
            answered += load.run(SLICE_SECONDS)
