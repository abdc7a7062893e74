"""Two processes on one run, against one."""

import statistics
import time
from contextlib import ExitStack

from harness.bench.figures import Bound, Figure
from harness.bench.fleet.yard import Yard
from harness.driver import say
from harness.fleet.ours import call_migrate_all
from harness.processes import serving

# One process takes what the databases give, so a second one is not to cost anything; a few
# per cent are what two runs of the same differ by.
SAME = 0.95


def two_over_one(yard: Yard) -> list[Figure]:
    """Measure the tenants of a run in a second, with one server and with two."""
    ours, count = yard.on_postgresql, yard.plan.postgresql
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        port = stack.enter_context(serving(yard.folder, ours.environment())).port
        for number in range(2 * yard.plan.rounds):
            processes = 1 + number % 2
            ours.tenants.reset(count)
            with ExitStack() as second:
                if processes == 2:
                    second.enter_context(serving(yard.folder, ours.environment()))
                # A run before the one that counts: servers are started long before.
                call_migrate_all(port, ours)
                ours.tenants.reset(count)
                began = time.perf_counter()
                call_migrate_all(port, ours)
                seconds[processes].append(time.perf_counter() - began)
            ours.tenants.check_at_head(count)
            say(f"processes, {processes}: {count / seconds[processes][-1]:,.0f} tenants a second")
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    ratio = statistics.median(ratios)
    rates = [count / statistics.median(seconds[processes]) for processes in (1, 2)]
    return [
        Figure(
            work="PostgreSQL, two processes of `tenantry serve` / one, tenants a second",
            value=ratio,
            shown=f"{ratio:.2f}",
            rate=f"one {rates[0]:,.0f}/s, two {rates[1]:,.0f}/s",
            bound=Bound(SAME, at_least=True),
            notes=[f"{min(ratios):.2f} to {max(ratios):.2f}, both on this machine, over HTTP"],
        )
    ]
