"""What one tenant at full blast does to the others."""

import base64
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure
from harness.bench.load import Load, Paced
from harness.bench.rows.requests import module_requests
from harness.machine import pinned
from harness.processes import ROOT, Process, environment
from harness.wire import Request

WARM_SECONDS = 1.0
OTHERS_PER_SECOND = 100
LOUD_CONNECTIONS = 60
LOUD_SECONDS_MAX = 180
# On a machine with nothing else to do it is 1 or 2.
CALM_MS_MAX = 4.0


def one_loud_tenant(bench: Bench) -> list[Figure]:
    """Measure the p99 of other tenants, idle and while one tenant sends without a pause.

    The rate limit is as good as off: what is measured is the fair share.
    """
    world = bench.on_postgresql
    requests = module_requests(world)
    # The tokens of the tenants come in turn, so every tenant has one among the first.
    loud, quiet = requests[0], requests[1 : len(world.tenants)]
    idle, beside, rates = [], [], []
    with bench.ours(world, requests_per_minute="100000000") as process:
        with Load(process.port, requests) as load:
            load.run(WARM_SECONDS)
        for _ in range(bench.plan.storm_rounds):
            idle.append(_p99(bench, process, quiet))
            with _loud(bench, process, loud) as rate:
                beside.append(_p99(bench, process, quiet))
            rates += rate
    calm, busy = statistics.median(idle), statistics.median(beside)
    note = (
        f"{LOUD_CONNECTIONS} connections of one tenant beside {OTHERS_PER_SECOND} requests a "
        f"second of {len(quiet)} others; p99 in ms by round: idle {_listed(idle)}; "
        f"beside it {_listed(beside)}"
    )
    return [
        Figure(
            work="p99 of the other tenants, with one at full blast / idle",
            value=busy / calm,
            shown=f"{busy / calm:.2f} times",
            rate=f"{calm:.2f}, {busy:.2f} ms; the loud one {statistics.median(rates):,.0f}/s",
            bound=Bound(2, 1.5, at_least=False, unit=" times"),
            notes=[note],
            is_disturbed=calm > CALM_MS_MAX,
        )
    ]


def _p99(bench: Bench, process: Process, requests: Sequence[Request]) -> float:
    took = Paced(process.port, requests, OTHERS_PER_SECOND).run(bench.plan.storm_seconds)
    return statistics.quantiles(took, n=100, method="inclusive")[98]


@contextmanager
def _loud(bench: Bench, process: Process, request: Request) -> Iterator[list[float]]:
    """Send *request* without a pause while the block lasts; yield where its rate is put."""
    rates: list[float] = []
    with pinned(frozenset(bench.cores.load)):
        client = subprocess.Popen(
            [sys.executable, "-m", "harness.bench.loud", str(process.port), str(LOUD_CONNECTIONS)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    assert client.stdin is not None
    assert client.stdout is not None
    try:
        client.stdin.write(base64.b64encode(request.wire) + b"\n")
        client.stdin.flush()
        client.stdout.readline()
        yield rates
        client.stdin.close()
        rates.append(float(client.stdout.readline()))
        client.wait(LOUD_SECONDS_MAX)
    finally:
        client.kill()
        client.wait()


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.1f}" for number in numbers)
