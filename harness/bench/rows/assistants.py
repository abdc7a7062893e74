"""A row of what assistants do: a call of a tool, against a tool of the SDK that does nothing."""

import json
from contextlib import ExitStack

from harness import wire
from harness.bench.bench import BLOG_POSTS, Bench
from harness.bench.figures import Bound, Figure
from harness.bench.interleave import Contender, Seen, interleave
from harness.bench.rows.requests import OURS
from harness.processes import Process
from harness.wire import Request
from harness.world import Tenant, World

SDK = "the SDK, an empty tool"
EMPTY_TOOL = "nothing"
NEWEST, BEFORE = "2026-07-28", "2025-11-25"
# As the public name of the service: `wire` asks for it.
PUBLIC_URL = "http://tenantry.test"
POSTS = 100
RESULT = b'"result":{"content":['
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def get_post(bench: Bench) -> list[Figure]:
    """Measure `get_post` in both kinds of revision, with tokens that are bound to users."""
    assert POSTS <= BLOG_POSTS
    world = bench.of_blogs
    figures = []
    with ExitStack() as stack:
        ours = stack.enter_context(bench.ours(world, public_url=PUBLIC_URL))
        empty = stack.enter_context(bench.peer("mcp_sdk", ""))
        tokens = [_token(ours, world, tenant) for tenant in world.tenants[:-1]]
        for revision in (NEWEST, BEFORE):
            requests = [
                _call(revision, "get_post", f"what-happened-on-day-{day}", token)
                for day in range(1, POSTS + 1)
                for token in tokens
            ]
            contenders = [
                Contender(SDK, empty, [_call(revision, EMPTY_TOOL, "any")]),
                Contender(OURS, ours, requests),
            ]
            figures.append(_figure(interleave(contenders, bench.plan.pace), revision))
    return figures


def _figure(seen: Seen, revision: str) -> Figure:
    times = seen.ratio(OURS, SDK)
    return Figure(
        work=f"MCP `get_post`, {revision}, PostgreSQL: CPU / that of an empty tool of the SDK",
        value=times,
        shown=f"{times:.2f} times",
        rate=f"{seen.per_second(OURS):,.0f}/s, the SDK {seen.per_second(SDK):,.0f}/s",
        bound=Bound(1.5, 1, at_least=False, unit=" times"),
        notes=seen.lines(SDK),
        is_disturbed=seen.is_disturbed(OURS, SDK),
    )


def _token(ours: Process, world: World, tenant: Tenant) -> str:
    """Return a new McpToken of the tenant's first user."""
    issue = wire.request(
        "POST",
        f"/api/admin/tenants/{tenant.id}/mcp-tokens",
        headers={"authorization": f"Bearer {world.admin_token}"},
        body={"name": "bench", "userId": tenant.users[0].id},
    )
    answer = wire.ask(ours.port, issue)
    if answer.status != 201:
        raise wire.WrongAnswer(repr(answer))
    token: str = json.loads(answer.body)["data"]["token"]
    return token


def _call(revision: str, tool: str, slug: str, token: str = "") -> Request:
    params: dict[str, object] = {"name": tool, "arguments": {"slug": slug}}
    headers = {"mcp-protocol-version": revision, "accept": "application/json"}
    if revision == NEWEST:
        params["_meta"] = _ENVELOPE
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    if token:
        headers["x-mcp-token"] = token
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    expected = rf"\"slug\":\"{slug}\"".encode() if token else b"done"
    return Request(
        wire.request("POST", "/mcp", headers=headers, body=body), expected, success=RESULT
    )
