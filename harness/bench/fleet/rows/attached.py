"""Databases that are not Tenantry's, on PostgreSQL: `tenantry fleet` beside what people use."""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from harness.bench.figures import Bound, Figure
from harness.bench.fleet import raw
from harness.bench.fleet.rounds import Contender, shown, take_turns
from harness.bench.fleet.yard import Yard
from harness.fleet.cores import meter
from harness.fleet.tenants import Tenants

AT_ONCE = 4  # the default of `tenantry fleet`
PEERS_AT_ONCE = 2
LIMIT = "raw asyncpg, 4 at once (the limit)"
LIBRARY = "tenantry.fleet_api.migrate, 4 at once"
LATER = "tenantry.fleet_api.migrate, not its first run: each database has its log"
COMMAND = "`tenantry fleet migrate`, with its start"
LOOP = "Alembic, a loop in one process"
POOL = "Alembic, a pool of 2 processes"
ALEMBIC = "Alembic's command line, 2 at once"
DBMATE = "dbmate, 2 at once"
PEERS = (LOOP, POOL, ALEMBIC, DBMATE)
ALEMBIC_MAX = 30  # of its command line: each is a process, and takes as long as the others
STARTS = 15


def pending(yard: Yard) -> list[Figure]:
    """Measure two pending revisions."""
    return _measure(yard, "two revisions pending", at_head=False)


def nothing(yard: Yard) -> list[Figure]:
    """Measure a fleet that is at the head."""
    return _measure(yard, "nothing pending", at_head=True)


def start(yard: Yard) -> list[Figure]:
    """Measure the start of the program."""
    listed = yard.listed
    listed.start_seconds()  # it creates the state
    found, on_cores = zip(*(listed.start_seconds() for _ in range(STARTS)), strict=True)
    median = statistics.median(found)
    return [
        Figure(
            work="`tenantry fleet migrate`: from the start of the program to the first revision",
            value=median,
            shown=f"{median:.2f} s",
            bound=Bound(0.6, at_least=False, unit=" s"),
            rate=f"{statistics.median(on_cores):.2f} s on the cores",
            notes=[f"{min(found):.2f} to {max(found):.2f} s, a new SQLite file, {STARTS} times"],
        )
    ]


def _measure(yard: Yard, what: str, *, at_head: bool) -> list[Figure]:
    seen = take_turns(
        f"Attached, {what}",
        _contenders(yard, at_head=at_head),
        yard.plan.rounds,
        meter(yard.server_url),
    )
    name = f"PostgreSQL, {yard.plan.attached} attached databases, {what}"
    ratio, whole = seen.over(LIBRARY, LIMIT), seen.over(COMMAND, LIMIT)
    limit = shown(seen.median(LIMIT))
    return [
        Figure(
            work=f"{name} / the limit",
            value=ratio,
            shown=f"{ratio:.2f}",
            rate=f"{shown(seen.median(LIBRARY))} ms, limit {limit} ms",
            bound=Bound(1.15, at_least=False),
            notes=seen.lines(LIMIT),
        ),
        Figure(
            work=f"{name}: CPU of client and server / the limit",
            value=(cost := seen.costs_over(LIBRARY, LIMIT)),
            shown=f"{cost:.2f}",
        ),
        Figure(
            work=f"{name}, not the first run / the limit",
            value=(later := seen.over(LATER, LIMIT)),
            shown=f"{later:.2f}",
            rate=f"{shown(seen.median(LATER))} ms, limit {limit} ms",
            bound=Bound(1.15, at_least=False),
        ),
        Figure(
            work=f"{name}, not the first run: CPU of client and server / the limit",
            value=(later_cost := seen.costs_over(LATER, LIMIT)),
            shown=f"{later_cost:.2f}",
        ),
        Figure(
            work=f"{name}: the command, with its start / the limit",
            value=whole,
            shown=f"{whole:.2f}",
            rate=f"{shown(seen.median(COMMAND))} ms, limit {limit} ms",
        ),
        *(
            Figure(
                work=f"{what}: faster than {peer}",
                value=(times := seen.over(peer, COMMAND)),
                shown=f"{times:.1f} times",
                rate=f"{shown(seen.median(COMMAND))} ms, peer {shown(seen.median(peer))} ms",
            )
            for peer in PEERS
        ),
    ]


def _contenders(yard: Yard, *, at_head: bool) -> list[Contender]:
    listed, count = yard.listed, yard.plan.attached
    alembic = yard.alembic

    def over(
        name: str,
        run: Callable[[Sequence[str]], float],
        many: int = count,
        tenants: Tenants = listed.tenants,
    ) -> Contender:
        return Contender(
            name,
            many,
            reset=partial(tenants.reset, many, at_head=at_head),
            run=lambda: run(tenants.urls[:many]),
            check=partial(tenants.check_at_head, many),
        )

    return [
        over(LIMIT, partial(raw.on_postgresql, at_once=AT_ONCE)),
        over(LIBRARY, listed.by_library),
        over(LATER, listed.by_library, tenants=listed.migrated_before),
        over(COMMAND, listed.by_command),
        over(LOOP, alembic.in_a_loop),
        over(POOL, partial(alembic.in_processes, at_once=PEERS_AT_ONCE)),
        over(
            ALEMBIC,
            partial(alembic.by_command, at_once=PEERS_AT_ONCE),
            min(count, ALEMBIC_MAX),
        ),
        over(DBMATE, partial(yard.dbmate.migrate, at_once=PEERS_AT_ONCE)),
    ]
