"""What a second serving process adds: its CPU for a request, and its part of the requests."""

import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure
from harness.bench.load import Load
from harness.bench.rows.requests import profile_requests
from harness.machine import TICKS_PER_SECOND
from harness.processes import Process

WARM_SECONDS = 1.0
# The kernel chooses a process for each connection: with few of them, one gets most by chance.
CONNECTIONS = 256
# The connections of one address are bounded.
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]
# Below it, a process of the supervisor serves no requests.
SERVING_SECONDS_MIN = 0.05


def workers(bench: Bench) -> list[Figure]:
    """Measure a change of the profile with one serving process and with two.

    Load and PostgreSQL need the other core, so both processes are on one, and their throughput
    cannot be shown. Their CPU for a request can: with a core for each, two processes are as many
    times faster as twice the CPU of one is more than theirs.
    """
    world = bench.on_postgresql
    requests = profile_requests(world)
    ratios, uneven, rates, notes = [], [], [], []
    with ExitStack() as stack:
        served = [stack.enter_context(bench.supervised(world, number)) for number in (1, 2)]
        loads = [
            stack.enter_context(
                Load(one.port, requests, connections=CONNECTIONS, addresses=ADDRESSES)
            )
            for one in served
        ]
        for _ in range(bench.plan.pace.rounds):
            one, two = (
                _window(process, load, bench.plan.pace.seconds)
                for process, load in zip(served, loads, strict=True)
            )
            ratios.append(two.cpu_us / one.cpu_us)
            uneven.append(max(two.parts) / statistics.mean(two.parts) - 1)
            rates.append((one.per_second, two.per_second))
            notes.append(f"one process {one.text}; two {two.text}")
    work = "`serve --workers 2`, `PUT /api/tenant/auth/profile`, PostgreSQL"
    times = 2 / statistics.median(ratios)
    share = statistics.median(uneven)
    single, double = (statistics.median(rate) for rate in zip(*rates, strict=True))
    return [
        Figure(
            work=f"{work}: times as fast as one, with a core for each",
            value=times,
            shown=f"{times:.2f} times",
            rate=f"both on one core: {double:,.0f}/s, one {single:,.0f}/s",
            bound=Bound(1.8, unit=" times"),
            notes=notes,
        ),
        Figure(
            work=f"{work}: CPU of the busier one above the mean",
            value=share,
            shown=f"{share:.0%}",
            rate=f"{CONNECTIONS} connections",
            bound=Bound(0.2, at_least=False),
        ),
    ]


class _Window:
    """What was seen in a window.

    Attributes:
        cpu_us: The CPU time of all processes for one request, in microseconds.
        per_second: Requests in a second.
        parts: The CPU seconds of each process that served requests.
        text: All of it, for people.
    """

    def __init__(self, answers: int, seconds: float, used: Mapping[int, float]) -> None:
        self.cpu_us = sum(used.values()) / answers * 1e6
        self.per_second = answers / seconds
        self.parts = [one for one in used.values() if one > SERVING_SECONDS_MIN]
        parts = " + ".join(f"{one:.2f} s" for one in used.values())
        self.text = f"{self.cpu_us:.0f} µs of CPU per request ({parts} for {answers:,})"


def _window(process: Process, load: Load, seconds: float) -> _Window:
    load.run(WARM_SECONDS)
    before, began = _cpu_seconds(process.pid), time.perf_counter()
    answers = load.run(seconds)
    took, after = time.perf_counter() - began, _cpu_seconds(process.pid)
    return _Window(answers, took, {pid: after[pid] - before.get(pid, 0.0) for pid in after})


def _cpu_seconds(supervisor: int) -> dict[int, float]:
    """Return the CPU time of a process and of its children, by their ids."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The second field is a name in parentheses, which may hold spaces.
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(path.parent.name)
        if supervisor in {pid, int(fields[1])}:
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found
