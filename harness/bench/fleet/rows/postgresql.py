"""A fleet on PostgreSQL: a database for every tenant, two pending revisions, and none."""

from collections.abc import Callable, Sequence
from functools import partial

from harness.bench.figures import Bound, Figure
from harness.bench.fleet import raw
from harness.bench.fleet.rounds import Contender, Seen, shown, take_turns
from harness.bench.fleet.yard import Yard
from harness.fleet.cores import meter

AT_ONCE = 4  # the default of TENANTRY_MIGRATE_CONCURRENCY, and the best of the raw driver
PEERS_AT_ONCE = 2
LIMIT = "raw asyncpg, 4 at once (the limit)"
OURS = "Tenantry, 4 at once"
LIVE = "Tenantry, live, 4 at once"
LOOP = "Alembic, a loop in one process"
COMMAND = "Alembic's command line, 2 at once"
SCHEMAS = "django-tenants, standard"
SCHEMAS_BOTH = "django-tenants, multiprocessing, 2 processes"
DBMATE = "dbmate, 2 at once"
TIMES = " times"


def pending(yard: Yard) -> list[Figure]:
    """Measure two pending revisions."""
    seen = take_turns(
        "PostgreSQL, pending",
        _contenders(yard, at_head=False),
        yard.plan.rounds,
        meter(yard.server_url),
    )
    count = yard.plan.postgresql
    return [
        _over(
            seen,
            OURS,
            f"PostgreSQL, {count} tenants, pending / the limit",
            Bound(1.15, 1.05, at_least=False),
            notes=seen.lines(LIMIT),
        ),
        _over(
            seen, LIVE, "PostgreSQL, pending, run live / the limit", Bound(1.6, 1.4, at_least=False)
        ),
        _faster(seen, COMMAND, Bound(10, 17, unit=TIMES)),
        _faster(seen, SCHEMAS_BOTH, Bound(2, 3, unit=TIMES)),
        _faster(seen, DBMATE, Bound(1.4, 2, unit=TIMES)),
        _faster(seen, LOOP, None),
    ]


def nothing(yard: Yard) -> list[Figure]:
    """Measure a fleet that is at the head: the commonest call."""
    seen = take_turns(
        "PostgreSQL, nothing",
        _contenders(yard, at_head=True),
        yard.plan.rounds,
        meter(yard.server_url),
    )
    count = yard.plan.postgresql
    return [
        _over(
            seen,
            OURS,
            f"PostgreSQL, {count} tenants, nothing pending / the limit",
            Bound(1.2, 1.05, at_least=False),
            notes=seen.lines(LIMIT),
        ),
        _faster(seen, COMMAND, Bound(40, 60, unit=TIMES), "nothing pending: "),
    ]


def _contenders(yard: Yard, *, at_head: bool) -> list[Contender]:
    ours, tenants, schemas = yard.on_postgresql, yard.on_postgresql.tenants, yard.schemas
    count, commands = yard.plan.postgresql, yard.plan.commands

    def over_tenants(name: str, run: Callable[[Sequence[str]], float], many: int) -> Contender:
        return Contender(
            name,
            many,
            reset=partial(tenants.reset, many, at_head=at_head),
            run=lambda: run(tenants.urls[:many]),
            check=partial(tenants.check_at_head, many),
        )

    def over_schemas(name: str, executor: str) -> Contender:
        return Contender(
            name,
            count,
            reset=partial(schemas.reset, at_head=at_head),
            run=partial(schemas.migrate, executor),
            check=schemas.check_at_head,
        )

    live = over_tenants(LIVE, lambda _: ours.migrate_all(count, live=True).seconds, count)
    return [
        over_tenants(LIMIT, partial(raw.on_postgresql, at_once=AT_ONCE), count),
        over_tenants(OURS, lambda _: ours.migrate_all(count).seconds, count),
        *([] if at_head else [live]),
        over_tenants(LOOP, yard.alembic.in_a_loop, count),
        over_tenants(COMMAND, partial(yard.alembic.by_command, at_once=PEERS_AT_ONCE), commands),
        over_tenants(DBMATE, partial(yard.dbmate.migrate, at_once=PEERS_AT_ONCE), count),
        over_schemas(SCHEMAS, "standard"),
        over_schemas(SCHEMAS_BOTH, "multiprocessing"),
    ]


def _over(seen: Seen, name: str, work: str, bound: Bound, notes: Sequence[str] = ()) -> Figure:
    ratio = seen.over(name, LIMIT)
    return Figure(
        work=work,
        value=ratio,
        shown=f"{ratio:.2f}",
        rate=f"{shown(seen.median(name))} ms, limit {shown(seen.median(LIMIT))} ms",
        bound=bound,
        notes=list(notes),
    )


def _faster(seen: Seen, peer: str, bound: Bound | None, which: str = "") -> Figure:
    ratio = seen.over(peer, OURS)
    return Figure(
        work=f"{which}faster than {peer}",
        value=ratio,
        shown=f"{ratio:.1f}{TIMES}",
        rate=f"{shown(seen.median(OURS))} ms, peer {shown(seen.median(peer))} ms",
        bound=bound,
    )
