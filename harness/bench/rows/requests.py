"""Rows that are counted in requests: the server's CPU for one, against the bare application."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from harness import wire
from harness.bench import profiler
from harness.bench.bench import BEFORE, Bench
from harness.bench.figures import Bound, Figure
from harness.bench.interleave import Contender, Seen, interleave
from harness.processes import Process
from harness.wire import Request
from harness.world import World

BARE = "bare"
OURS = "Tenantry"
ORM = "FastAPI + ORM"
BY_HAND = "by hand"
# Different addresses of each user, so that remembering the last ones does not help.
PROFILES = 16


def profile_postgresql(bench: Bench) -> list[Figure]:
    """Measure a change of the profile on PostgreSQL, beside the peers."""
    world = bench.on_postgresql
    requests = profile_requests(world)
    with ExitStack() as stack:
        ours = bench.with_before(stack, OURS, world)
        peers = {}
        if bench.plan.with_peers:
            facts = str(world.facts)
            peers = {
                ORM: stack.enter_context(bench.peer("orm", facts)),
                BY_HAND: stack.enter_context(bench.peer("by_hand", facts)),
            }
        seen, notes = compare(bench, "profile-postgresql", ours, peers, requests)
    work = "`PUT /api/tenant/auth/profile`, PostgreSQL"
    figures = [figure(seen, OURS, work, Bound(0.15, 0.28), notes)]
    if peers:
        times = seen.ratio(ORM, OURS)
        ceiling = seen.ratio(BARE, BY_HAND)
        of_ceiling = seen.ratio(BY_HAND, OURS)
        figures += [
            Figure(
                work=f"{work}: CPU of FastAPI + ORM / ours",
                value=times,
                shown=f"{times:.2f} times",
                rate=rate(seen, ORM),
                bound=Bound(4, unit=" times"),
                is_disturbed=seen.is_disturbed(ORM, OURS),
            ),
            Figure(
                work=f"{work}: the ceiling, by hand on asyncpg",
                value=None,
                shown=f"{ceiling:.3f}",
                rate=rate(seen, BY_HAND),
                is_disturbed=seen.is_disturbed(BARE, BY_HAND),
            ),
            Figure(
                work=f"{work}: of the ceiling",
                value=of_ceiling,
                shown=f"{of_ceiling:.3f}",
                rate=f"{seen.per_second(OURS):,.0f}/s, by hand {seen.per_second(BY_HAND):,.0f}/s",
                bound=Bound(0.80, 0.90),
                is_disturbed=seen.is_disturbed(BY_HAND, OURS),
            ),
        ]
    return figures


def profile_sqlite(bench: Bench) -> list[Figure]:
    """Measure a change of the profile on SQLite, at both levels of durability."""
    world = bench.on_sqlite
    full, normal = f"{OURS} FULL", f"{OURS} NORMAL"
    # Two servers of one catalog in files are refused: the other one has a copy.
    copied = bench.copy_of(world, "sqlite-normal")
    with ExitStack() as stack:
        ours = bench.with_before(stack, full, world)
        ours |= bench.with_before(stack, normal, copied, sqlite_synchronous="NORMAL")
        seen, notes = compare(bench, "profile-sqlite", ours, {}, profile_requests(world))
    work = "`PUT /api/tenant/auth/profile`, SQLite, `synchronous=%s`"
    return [
        figure(seen, full, work % "FULL", Bound(0.10, 0.12), notes),
        figure(seen, normal, work % "NORMAL", Bound(0.16, 0.25), []),
    ]


def modules(bench: Bench) -> list[Figure]:
    """Measure the list of modules: one query, for the user."""
    world = bench.on_postgresql
    requests = module_requests(world)
    with ExitStack() as stack:
        ours = bench.with_before(stack, OURS, world)
        seen, notes = compare(bench, "modules", ours, {}, requests)
    work = "`GET /api/tenant/modules`, PostgreSQL"
    return [figure(seen, OURS, work, Bound(0.17, 0.30), notes)]


def module_requests(world: World) -> list[Request]:
    """Return a request for the modules with each token: the next one is another tenant's."""
    return [
        Request(
            wire.request("GET", "/api/tenant/modules", headers=headers),
            b'"name":',
        )
        for headers in _headers(world)
    ]


def profile_requests(world: World) -> list[Request]:
    """Return changes of the profile with each token, to several addresses in turn."""
    headers = list(_headers(world))
    return [
        Request(
            wire.request(
                "PUT",
                "/api/tenant/auth/profile",
                headers=one,
                body={
                    "fullName": f"Renamed {number}.{version}",
                    "email": f"renamed{number}.{version}@example{number % 16}.com",
                },
            ),
            f'"fullName":"Renamed {number}.{version}"'.encode(),
        )
        for version in range(PROFILES)
        for number, one in enumerate(headers)
    ]


def _headers(world: World) -> list[Mapping[str, str]]:
    # The first users of all tenants, then the second ones.
    in_turn = zip(*(tenant.users for tenant in world.tenants), strict=True)
    return [
        {"authorization": f"Bearer {user.token}", "x-api-key": tenant.api_key}
        for users in in_turn
        for tenant, user in zip(world.tenants, users, strict=True)
    ]


def compare(
    bench: Bench,
    name: str,
    ours: Mapping[str, Process],
    peers: Mapping[str, Process],
    requests: Sequence[Request],
) -> tuple[Seen, list[str]]:
    """Measure the bare application, ours and peers in turn; return what was seen, and notes.

    Raises:
        WrongAnswer: One answered something else than it should.
    """
    answer = wire.ask(next(iter(ours.values())).port, requests[0].wire)
    if not requests[0].fits(answer.raw):
        raise wire.WrongAnswer(repr(answer))
    with bench.bare(name, answer) as bare:
        # It gives one answer to all of them, so nothing in particular is expected.
        asked = [Request(one.wire, b"", one.begins) for one in requests]
        contenders = [Contender(BARE, bare, asked)]
        contenders += [Contender(one, ours[one], requests) for one in ours]
        contenders += [Contender(one, peers[one], requests) for one in peers]
        seen = interleave(contenders, bench.plan.pace)
    notes = seen.lines(BARE)
    if bench.plan.profile_seconds:
        for one, process in ours.items():
            if not one.endswith(BEFORE):
                contender = Contender(one, process, requests)
                notes += profiler.profile(contender, bench.plan.profile_seconds)
    return seen, notes


def figure(seen: Seen, name: str, work: str, bound: Bound, notes: list[str]) -> Figure:
    """Return the ratio of the bare application to *name* as a line of the table."""
    ratio = seen.ratio(BARE, name)
    return Figure(
        work=work,
        value=ratio,
        shown=f"{ratio:.3f}",
        rate=rate(seen, name),
        bound=bound,
        notes=notes,
        is_disturbed=seen.is_disturbed(BARE, name),
    )


def rate(seen: Seen, name: str) -> str:
    """Return the requests of *name* in a second, beside those of the bare application."""
    return f"{seen.per_second(name):,.0f}/s, bare {seen.per_second(BARE):,.0f}/s"
