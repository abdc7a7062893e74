"""Logins: their rate, and the effect of a storm of them on other requests."""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness import wire
from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure
from harness.bench.load import Load, Paced
from harness.bench.rows.requests import module_requests
from harness.machine import pinned
from harness.processes import ROOT, Process, environment
from harness.wire import Request
from harness.world import PASSWORD, World

WARM_SECONDS = 1.0
OTHERS_PER_SECOND = 200
# On a machine with nothing else to do it is 1 or 2.
CALM_MS_MAX = 4.0
STORM_CONNECTIONS = 16
# Each user has a separate address, so that limits by address do not matter.
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 2 + STORM_CONNECTIONS)]
STORM_SLICE_SECONDS = 0.2
POOL_SECONDS_MORE = 30


def logins(bench: Bench) -> list[Figure]:
    """Measure logins against the hashing pool alone, on the same core."""
    world = bench.for_logins
    seconds = bench.plan.login_seconds
    ratios, rates, pools = [], [], []
    with bench.ours(world) as process:
        for _ in range(bench.plan.pace.rounds):
            pools.append(bare_pool(bench, seconds))
            with Load(process.port, _requests(world), addresses=ADDRESSES) as load:
                load.run(WARM_SECONDS)
                began = time.perf_counter()
                rates.append(load.run(seconds) / (time.perf_counter() - began))
            ratios.append(rates[-1] / pools[-1])
    ratio = statistics.median(ratios)
    return [
        Figure(
            work="logins per second / what the bare hashing pool gives",
            value=ratio,
            shown=f"{ratio:.3f}",
            rate=f"{statistics.median(rates):.1f}/s, pool {statistics.median(pools):.1f}/s",
            bound=Bound(0.9, 0.97),
            notes=[f"{min(ratios):.3f} to {max(ratios):.3f}, PostgreSQL, one hashing thread"],
        )
    ]


def storm(bench: Bench) -> list[Figure]:
    """Measure other requests while as many people as can log in, and with the control."""
    world = bench.for_logins
    idle, ours, inline, rates = [], [], [], []
    with (
        bench.ours(world) as process,
        bench.ours(world, module=["harness.bench.servers.inline"]) as control,
    ):
        # Connections are opened and tokens verified before anything is measured.
        for server in (process, control):
            with Load(server.port, module_requests(world)) as load:
                load.run(WARM_SECONDS)
        for _ in range(bench.plan.storm_rounds):
            idle.append(_p99_of_others(bench, process, world))
            with _storm(process, world) as counted:
                began = time.perf_counter()
                ours.append(_p99_of_others(bench, process, world))
                rates.append(counted[0] / (time.perf_counter() - began))
            with _storm(control, world):
                inline.append(_p99_of_others(bench, control, world))
    calm, stormy, controlled = (statistics.median(one) for one in (idle, ours, inline))
    note = (
        f"p99 of {OTHERS_PER_SECOND} `GET /api/tenant/modules` a second, in ms, by round: "
        f"idle {_listed(idle)}; storm {_listed(ours)}; inline {_listed(inline)}"
    )
    return [
        Figure(
            work="p99 of other requests in a login storm",
            value=stormy - calm,
            shown=f"idle {calm:.2f} ms {stormy - calm:+.2f} ms",
            rate=f"{statistics.median(rates):.0f} logins/s",
            bound=Bound(5, 1, at_least=False, unit=" ms", base="idle + "),
            notes=[note],
            is_disturbed=calm > CALM_MS_MAX,
        ),
        Figure(
            work="the same, hashing inline (control)",
            value=controlled - calm,
            shown=f"idle {calm:.2f} ms {controlled - calm:+.2f} ms",
            bound=Bound(50, unit=" ms", base="idle + "),
            is_disturbed=calm > CALM_MS_MAX,
        ),
    ]


def _requests(world: World) -> list[Request]:
    return [
        Request(
            wire.request(
                "POST",
                "/api/tenant/auth/login",
                headers={"x-api-key": tenant.api_key},
                body={"email": tenant.users[number].email, "password": PASSWORD},
            ),
            b'"token":"',
        )
        for number in range(len(world.tenants[0].users))
        for tenant in world.tenants
    ]


def bare_pool(bench: Bench, seconds: float) -> float:
    """Return how many passwords in a second the pool verifies by itself, on the server's core."""
    with pinned(frozenset({bench.cores.server})):
        done = subprocess.run(
            [sys.executable, "-m", "harness.bench.servers.hashing", PASSWORD, str(seconds)],
            cwd=ROOT,
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds + POOL_SECONDS_MORE,
        )
    return float(done.stdout)


def _p99_of_others(bench: Bench, process: Process, world: World) -> float:
    paced = Paced(process.port, module_requests(world), OTHERS_PER_SECOND)
    took = paced.run(bench.plan.storm_seconds)
    return statistics.quantiles(took, n=100, method="inclusive")[98]


@contextmanager
def _storm(process: Process, world: World) -> Iterator[list[int]]:
    """Log in without a pause while the block lasts; yield where the number of logins is put.

    In a thread: forty answers in a second do not disturb the one that measures.
    """
    ended = threading.Event()
    counted = [0]
    failures: list[Exception] = []

    def blow() -> None:
        load = Load(
            process.port, _requests(world), connections=STORM_CONNECTIONS, addresses=ADDRESSES
        )
        try:
            with load:
                while not ended.is_set():
                    counted[0] += load.run(STORM_SLICE_SECONDS)
        except Exception as error:  # noqa: BLE001 - it is raised where it is seen
            failures.append(error)

    thread = threading.Thread(target=blow)
    thread.start()
    try:
        time.sleep(WARM_SECONDS)
        counted[0] = 0
        yield counted
    finally:
        ended.set()
        thread.join()
        if failures:
            raise failures[0]


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.1f}" for number in numbers)
