"""A catalog of a million tenants: what admins see, and what they order, while a run goes on."""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from harness import postgres
from harness.bench import crowd
from harness.bench.bench import Bench
from harness.bench.client import Client
from harness.bench.figures import Bound, Figure
from harness.processes import Process, peak_mib
from harness.world import Size, World

DATABASES = 200
FRAGMENT_CHARS = 7
TENANTS = "/api/admin/tenants"
MIGRATE_ALL = f"{TENANTS}/migrate-all"
HISTORY = f"{TENANTS}/migration-history"
ORDER_PAUSE_SECONDS = 0.05
CLOSE_SECONDS_MAX = 240
READ_MS = Bound(50, at_least=False, unit=" ms")
ORDER_MS = Bound(500, at_least=False, unit=" ms")
PLAN_MS = Bound(2_000, at_least=False, unit=" ms")
MEMORY_MIB = Bound(300, at_least=False, unit=" MiB")


def on_sqlite(bench: Bench) -> list[Figure]:
    """Measure with a file."""
    return _measure(bench, "sqlite", "SQLite")


def on_postgresql(bench: Bench) -> list[Figure]:
    """Measure with databases on a server."""
    return _measure(bench, "postgresql", "PostgreSQL")


def _measure(bench: Bench, engine: str, shown: str) -> list[Figure]:
    count = bench.plan.crowd
    world = bench.new_world(f"{engine}-million", Size(min(DATABASES, count)))
    if engine == "postgresql":
        with postgres.careless(bench.postgres_url):
            crowd.fill(world, count)
    else:
        crowd.fill(world, count)
    with bench.ours(world) as process:
        client = Client(process.port, world.admin_token)
        what = f"{count:,} tenants, {shown}"
        figures = [
            _read(client, f"{what}: {name}, p99", paths) for name, paths in _reads(count).items()
        ]
        took, found = client.ask("POST", MIGRATE_ALL, {"onlyBehind": True})
        assert found["total"] == 0
        figures.append(
            _one(f"{what}: a run of those behind, of which there are none", took, PLAN_MS)
        )
        took, found = client.ask("POST", MIGRATE_ALL, {"onlyBehind": True, "dryRun": True})
        assert found["total"] == 0, found
        figures.append(_one(f"{what}: the plan of that run", took, PLAN_MS))
        figures += _orders(world, process, client, what)
        figures.append(
            _read(client, f"{what}: history, p99", [f"{HISTORY}?pageSize=10&details=none"])
        )
        figures.append(_memory(process, f"{what}: peak resident memory"))
    return figures


def _reads(count: int) -> dict[str, Sequence[str]]:
    chance = random.Random(crowd.SEED)  # noqa: S311 - it chooses pages
    sought = list(crowd.names(min(count, 100_000)))

    def rare() -> str:
        """Return the end of a name: of the second word, and the number."""
        return chance.choice(sought)[-FRAGMENT_CHARS:]

    pages = range(1, 101)
    return {
        "list": [f"{TENANTS}?pageSize=20&page={page}" for page in pages],
        "list, filtered": [
            f"{TENANTS}?pageSize=20&{one}"
            for one in ("isActive=false", "isFailing=true", "server=default", "isReadOnly=true")
        ],
        "list, any page": [
            f"{TENANTS}?pageSize=20&page={chance.randint(1, count // 20)}" for _ in pages
        ],
        "search, rare": [f"{TENANTS}?pageSize=20&search={quote(rare())}" for _ in pages],
        "search, frequent": [f"{TENANTS}?pageSize=20&search={one}" for one in crowd.WORDS.split()],
        f"where, a label of 1 in {crowd.CANARY_EACH}": [
            f"{TENANTS}?pageSize=20&where=canary%3Dyes&page={page}" for page in pages
        ],
        "where, two labels": [
            f"{TENANTS}?pageSize=20&where={quote('canary=yes and region=eu and not failing')}"
        ],
        "schema status": [f"{TENANTS}/schema-status"],
    }


def _read(client: Client, work: str, paths: Sequence[str], times: int = 100) -> Figure:
    took = [client.ask("GET", paths[number % len(paths)])[0] for number in range(times)]
    return Figure(
        work=work,
        value=(p99 := _p99(took)),
        shown=f"{p99:.1f} ms",
        rate=f"median {statistics.median(took):.1f} ms",
        bound=READ_MS,
    )


def _orders(world: World, process: Process, client: Client, what: str) -> list[Figure]:
    """Plan a run of all tenants, cancel it, and change a tenant repeatedly until it has ended."""
    renamed = Client(process.port, world.admin_token)
    path = f"{TENANTS}/{world.tenants[0].id}"

    def order(number: int) -> float:
        return renamed.ask("PATCH", path, {"name": f"Renamed {number}"})[0]

    with _repeated(order) as beside_plan:
        planned, run = client.ask("POST", MIGRATE_ALL, {}, prefer="respond-async")
    with _repeated(order) as beside_close:
        time.sleep(2)
        cancelled, _ = client.ask("POST", f"{HISTORY}/{run['id']}/cancel")
        began = time.perf_counter()
        while _state(client, run["id"])["finishedAt"] is None:
            if time.perf_counter() - began > CLOSE_SECONDS_MAX:
                break
            time.sleep(0.5)
        closed = time.perf_counter() - began
    return [
        _one(f"{what}: a run of all of them, until it is planned", planned, None),
        _worst(f"{what}: the slowest order beside that", beside_plan),
        _one(f"{what}: cancel", cancelled, ORDER_MS, f"all are ended after {closed:.0f} s"),
        _worst(f"{what}: the slowest order until all are ended", beside_close),
    ]


def _state(client: Client, run_id: str) -> Any:
    return client.ask("GET", f"{HISTORY}/{run_id}?details=none")[1]


@contextmanager
def _repeated(order: Callable[[int], float]) -> Iterator[list[float]]:
    """Repeat *order* in a thread while the block lasts; yield where its times are put."""
    took: list[float] = []
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(ORDER_PAUSE_SECONDS):
            took.append(order(len(took)))

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


def _one(work: str, took: float, bound: Bound | None, rate: str = "") -> Figure:
    return Figure(work=work, value=took, shown=f"{took:,.0f} ms", bound=bound, rate=rate)


def _worst(work: str, took: list[float]) -> Figure:
    return _one(work, max(took), ORDER_MS, f"{len(took)}, median {statistics.median(took):.0f} ms")


def _memory(process: Process, work: str) -> Figure:
    peak = peak_mib(process.pid)
    return Figure(work=work, value=peak, shown=f"{peak:.0f} MiB", bound=MEMORY_MIB)


def _p99(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=100, method="inclusive")[98]
