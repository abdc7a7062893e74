"""Rows of the versions of posts: what they cost readers, a save, and those who copy a tenant."""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from harness import postgres, wire
from harness.api import POSTS, signed_in
from harness.bench import blogs
from harness.bench.bench import BEFORE, Bench
from harness.bench.client import Client
from harness.bench.figures import Bound, Figure
from harness.bench.interleave import Contender, Seen, interleave
from harness.bench.rows.blogs import page_of
from harness.bench.rows.requests import OURS
from harness.wire import Request, WrongAnswer
from harness.world import Size, Tenant, World
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.postgres import find_binaries

ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
READ_POSTS, READ_VERSIONS = 1_000, 20
READ = Bound(1.10, at_least=False, unit=" times")
SAVED_TENANTS, SAVED_POSTS = 16, 64
SAVE = Bound(1.4, at_least=False, unit=" times")
# As many as are kept by default.
KEPT = 50
COPIED_ROUNDS = 3
COPIED_PARTS = (40, 10)
"""Of the posts that the rows of readers have: the smaller tenant, and the larger."""
PROPORTIONAL = Bound(1.3, at_least=False, unit=" times")
FAR, NEAR = "far", "default"
JOB_SECONDS_MAX = 600.0
JOB_PAUSE_SECONDS = 0.05
MEGABYTE = 1_000_000
# Reads every version, and writes a row of each.
REVISION = """
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    op.execute(
        "CREATE TABLE post_length AS "
        "SELECT post_id, number, length(content) AS chars FROM tenantry_post_version"
    )
"""
UNDONE = ("DROP TABLE post_length", "DELETE FROM alembic_version")


def read(bench: Bench, engine: str) -> list[Figure]:
    """Measure the public blog of posts with many versions against that of posts with one."""
    posts, versions = bench.plan.versioned_posts, READ_VERSIONS
    world = bench.new_world(f"{engine}-versions", Size(2))
    one, many = "1 version", f"{versions} versions"
    with _careless(bench, engine):
        for tenant, count in zip(world.tenants, (1, versions), strict=True):
            blogs.fill(tenant.url, posts, versions=count)
    figures = []
    kinds: dict[str, Callable[[Tenant], Sequence[Request]]] = {
        "page": lambda tenant: [
            page_of(tenant, f"page={n}&pageSize=10", posts) for n in range(1, 11)
        ],
        "one post": lambda tenant: [
            _post(tenant, n) for n in range(1, posts + 1, max(1, posts // READ_POSTS))
        ],
    }
    with bench.ours(world) as process:
        for kind, requests in kinds.items():
            contenders = [
                Contender(name, process, requests(tenant))
                for name, tenant in zip((one, many), world.tenants, strict=True)
            ]
            seen = interleave(contenders, bench.plan.pace)
            work = f"public blog, {posts:,} posts, {ENGINES[engine]}: {kind}, {many} / {one}"
            figures += _compared(seen, many, one, work, READ)
    return figures


def save(bench: Bench, engine: str) -> list[Figure]:
    """Measure a save of a post that has as many versions as are kept.

    With ``--before``, a checkout of a release without versions, against a save with that one.
    """
    world = bench.new_world(f"{engine}-saves", Size(SAVED_TENANTS))
    worlds = {OURS: (world, KEPT)}
    if bench.plan.before is not None:
        before = bench.world_of_before(f"{engine}-saves-before", Size(SAVED_TENANTS))
        worlds[OURS + BEFORE] = (before, 0)
    with _careless(bench, engine):
        for its, versions in worlds.values():
            for tenant in its.tenants:
                blogs.fill(tenant.url, SAVED_POSTS, versions=versions)
    with ExitStack() as stack:
        contenders = []
        for name, (its, _) in worlds.items():
            source = {"source": bench.plan.before / "src"} if name != OURS else {}
            process = stack.enter_context(bench.ours(its, **source))
            contenders.append(Contender(name, process, _saves(its)))
        seen = interleave(contenders, bench.plan.pace)
    work = f"save of a post with {KEPT} versions, {ENGINES[engine]}"
    if bench.plan.before is None:
        rate = f"{seen.per_second(OURS):,.0f}/s"
        return [Figure(work=work, value=None, shown=rate, notes=seen.lines(OURS))]
    return _compared(seen, OURS, OURS + BEFORE, f"{work} / before versions", SAVE)


def copy(bench: Bench, engine: str) -> list[Figure]:
    """Measure a migration, a backup and a move of a tenant, and of one several times as large."""
    posts = tuple(bench.plan.versioned_posts // part for part in COPIED_PARTS)
    world = bench.new_world(f"{engine}-bytes", Size(2))
    with _careless(bench, engine):
        for tenant, count in zip(world.tenants, posts, strict=True):
            blogs.fill(tenant.url, count, versions=KEPT)
    folder = bench.folder / f"{engine}-bytes-revisions"
    (folder / "versions").mkdir(parents=True)
    (folder / "versions" / "0001_measure_posts.py").write_text(REVISION)
    far = bench.postgres_url if engine == "postgresql" else f"sqlite:///{bench.folder}/bytes-far"
    settings = {
        "tenant_servers": json.dumps({FAR: far}),
        "tenant_migrations": str(folder),
        "pg_tools": str(find_binaries()),
    }
    megabytes = [_bytes(tenant.url) / MEGABYTE for tenant in world.tenants]
    with bench.ours(world, **settings) as process:
        client = Client(process.port, world.admin_token)
        return [
            _proportional(work, ENGINES[engine], posts, megabytes, [
                [do(client, tenant) for tenant in world.tenants] for _ in range(COPIED_ROUNDS)
            ])
            for work, do in (("migration", _migrate), ("backup", _back_up), ("move", _move))
        ]  # fmt: skip


def _migrate(client: Client, tenant: Tenant) -> float:
    """Return the seconds that a migration takes, and undo it."""
    took, run = client.ask("POST", "/api/admin/tenants/migrate-all", {"tenantIds": [tenant.id]})
    if (run["total"], run["failed"]) != (1, 0):
        raise WrongAnswer(repr(run))
    raw_sql.run(tenant.url, *UNDONE)
    return took / 1000


def _back_up(client: Client, tenant: Tenant) -> float:
    return _job(client, f"/api/admin/tenants/{tenant.id}/backup", {})


def _move(client: Client, tenant: Tenant) -> float:
    path = f"/api/admin/tenants/{tenant.id}"
    now = client.ask("GET", path)[1]["serverName"]
    return _job(client, f"{path}/move", {"server": NEAR if now == FAR else FAR})


def _job(client: Client, path: str, body: object) -> float:
    """Return the seconds from the request of a job to its end."""
    began = time.monotonic()
    job = client.ask("POST", path, body)[1]
    while job["finishedAt"] is None:
        if time.monotonic() - began > JOB_SECONDS_MAX:
            raise WrongAnswer(f"the job does not end: {job}")
        time.sleep(JOB_PAUSE_SECONDS)
        job = client.ask("GET", f"/api/admin/jobs/{job['id']}")[1]
    if job["error"] is not None:
        raise WrongAnswer(repr(job))
    return time.monotonic() - began


def _proportional(
    work: str,
    engine: str,
    posts: Sequence[int],
    megabytes: Sequence[float],
    rounds: Sequence[Sequence[float]],
) -> Figure:
    """Return the time of a megabyte of the larger tenant over that of the smaller."""
    seconds = [statistics.median(times) for times in zip(*rounds, strict=True)]
    small, large = (took / size for took, size in zip(seconds, megabytes, strict=True))
    what = f"{posts[0]:,} and {posts[1]:,} posts of {KEPT} versions"
    ranges = [f"{min(times):.2f} to {max(times):.2f} s" for times in zip(*rounds, strict=True)]
    shown = [f"{size:.0f} MB {one}" for size, one in zip(megabytes, ranges, strict=True)]
    return Figure(
        work=f"{work} of {what}, {engine}: seconds per MB, the larger / the smaller",
        value=large / small,
        shown=f"{large / small:.2f} times",
        rate=f"{small * 1000:.2f} and {large * 1000:.2f} ms per MB",
        bound=PROPORTIONAL,
        notes=[f"{work}, {engine}: {', '.join(shown)}, {len(rounds)} of each in turn"],
    )


def _compared(seen: Seen, one: str, other: str, work: str, bound: Bound) -> list[Figure]:
    """Return the ratios of two contenders: of the server's CPU, and of the time."""
    rates = zip(seen.windows[other], seen.windows[one], strict=True)
    # PostgreSQL has another core: what costs there shows in the time alone.
    time_ratio = statistics.median(a.per_second / b.per_second for a, b in rates)
    ratios = {"CPU": seen.ratio(one, other), "time": time_ratio}
    return [
        Figure(
            work=f"{work}: {what}",
            value=ratio,
            shown=f"{ratio:.2f} times",
            rate=f"{seen.per_second(one):,.0f}/s and {seen.per_second(other):,.0f}/s",
            bound=bound,
            notes=seen.lines(other) if what == "CPU" else [],
            is_disturbed=seen.is_disturbed(one, other),
        )
        for what, ratio in ratios.items()
    ]


def _post(tenant: Tenant, number: int) -> Request:
    slug = blogs.slug_of(number)
    headers = {"x-api-key": tenant.api_key}
    asked = wire.request("GET", f"/api/public/blog/posts/{slug}", headers=headers)
    return Request(asked, f'"slug":"{slug}"'.encode())


def _saves(world: World) -> Iterator[Request]:
    """Yield saves of all posts with one text, then with the next, without an end.

    Each changes its post: a save of the text that the post has already would write nothing.
    """
    for text in itertools.count():
        for number in range(1, SAVED_POSTS + 1):
            body = {"title": f"Day {number}", "content": f"Text {text}. {blogs.CONTENT}"}
            for tenant in world.tenants:
                path = f"{POSTS}/{blogs.id_of(number)}"
                sent = wire.request("PUT", path, headers=signed_in(tenant), body=body)
                yield Request(sent, f'"Text {text}. '.encode())


def _bytes(url: str) -> int:
    path = sqlite_path(url)
    if path is not None:
        return Path(path).stat().st_size
    ((size,),) = raw_sql.rows(url, "SELECT pg_database_size(current_database())")
    return int(size)


@contextmanager
def _careless(bench: Bench, engine: str) -> Iterator[None]:
    """Fill databases in the block."""
    with postgres.careless(bench.postgres_url) if engine == "postgresql" else nullcontext():
        yield
