"""Rows of the public blog: a page, a conditional request, and a large blog."""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack

from harness import wire
from harness.bench.bench import BLOG_POSTS, LARGE_BLOG_POSTS, Bench
from harness.bench.blogs import TAG
from harness.bench.figures import Bound, Figure
from harness.bench.interleave import Contender, interleave
from harness.bench.rows.requests import OURS, compare, figure
from harness.wire import NOT_MODIFIED, Request
from harness.world import Tenant

PATH = "/api/public/blog/posts"
PAGES = 10


def page(bench: Bench) -> list[Figure]:
    """Measure a page."""
    world = bench.of_blogs
    requests = [
        page_of(tenant, f"page={number}&pageSize=10", BLOG_POSTS)
        for number in range(1, PAGES + 1)
        for tenant in world.tenants[:-1]
    ]
    with ExitStack() as stack:
        ours = bench.with_before(stack, OURS, world)
        seen, notes = compare(bench, "blog-page", ours, {}, requests)
    work = f"public blog page of 10 among {BLOG_POSTS:,}, PostgreSQL"
    return [figure(seen, OURS, work, Bound(0.12, 0.25), notes)]


def not_modified(bench: Bench) -> list[Figure]:
    """Measure a page that the client has already."""
    world = bench.of_blogs
    with ExitStack() as stack:
        ours = bench.with_before(stack, OURS, world)
        port = ours[OURS].port
        requests = [_known(port, tenant) for tenant in world.tenants[:-1]]
        seen, notes = compare(bench, "blog-304", ours, {}, requests)
    work = "the same, not modified (304)"
    return [figure(seen, OURS, work, Bound(0.18, 0.30), notes)]


def large(bench: Bench) -> list[Figure]:
    """Measure a large blog against a small one, on one server."""
    world = bench.of_blogs
    small, large_ = f"{BLOG_POSTS:,} posts", f"{LARGE_BLOG_POSTS:,} posts"
    figures = []
    with bench.ours(world) as process:
        for kind, query in (("page", "page={}"), ("page of a tag", f"tag={TAG}&page={{}}")):
            contenders = [
                Contender(name, process, _pages(tenant, query, posts))
                for name, tenant, posts in (
                    (small, world.tenants[0], BLOG_POSTS),
                    (large_, world.tenants[-1], LARGE_BLOG_POSTS),
                )
            ]
            seen = interleave(contenders, bench.plan.pace)
            rates = zip(seen.windows[small], seen.windows[large_], strict=True)
            cpu = seen.ratio(large_, small)
            # PostgreSQL has another core: what costs there shows in the time alone.
            time = statistics.median(a.per_second / b.per_second for a, b in rates)
            figures += [
                _times(f"{kind}, {large_} / {small}: CPU", cpu, seen.lines(small)),
                _times(f"{kind}, {large_} / {small}: time", time, []),
            ]
    return figures


def _times(work: str, value: float, notes: list[str]) -> Figure:
    bound = Bound(1.3, at_least=False, unit=" times")
    return Figure(work=work, value=value, shown=f"{value:.2f} times", bound=bound, notes=notes)


def _pages(tenant: Tenant, query: str, posts: int) -> Sequence[Request]:
    return [page_of(tenant, query.format(n) + "&pageSize=10", posts) for n in range(1, PAGES + 1)]


def page_of(tenant: Tenant, query: str, posts: int) -> Request:
    """Return the request for a page of the public blog of a tenant with so many posts."""
    asked = wire.request("GET", f"{PATH}?{query}", headers={"x-api-key": tenant.api_key})
    return Request(asked, f'"pageSize":10,"totalCount":{posts},'.encode())


def _known(port: int, tenant: Tenant) -> Request:
    headers = {"x-api-key": tenant.api_key}
    answer = wire.ask(port, wire.request("GET", PATH, headers=headers))
    tag = dict(answer.headers)["etag"]
    asked = wire.request("GET", PATH, headers={**headers, "if-none-match": tag})
    return Request(asked, tag.encode(), NOT_MODIFIED)
