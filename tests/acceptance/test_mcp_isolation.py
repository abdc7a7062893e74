"""Many MCP clients of two tenants at once: no response holds data of the other tenant."""

import asyncio
from collections.abc import Sequence

import pytest

from tenantry.fleet.lifecycle import Provisioned
from tests.acceptance.assistants import call, message, newest, post
from tests.acceptance.sockets import Served, served
from tests.conftest import World

pytestmark = pytest.mark.slow

CLIENTS = 20
CALLS_EACH = 100

Request = tuple[bytes, dict[str, str]]


def requests_of(mine: str, theirs: str) -> Sequence[Request]:
    """Return requests in both revisions; the last one asks for what is the other tenant's."""
    own, foreign = f"hello-from-{mine}", f"hello-from-{theirs}"
    return (
        (call("whoami"), {}),
        newest("tools/call", name="list_posts", arguments={}),
        (call("get_post", slug=own), {}),
        newest("tools/call", name="search_posts", arguments={"query": "canary"}),
        newest("resources/read", uri=f"tenantry://posts/{own}"),
        (message("resources/list", {}), {}),
        newest("tools/call", name="get_post", arguments={"slug": foreign}),
    )


class TestIsolation:
    async def test_holds_while_both_tenants_ask_at_once(self, world: World):
        """Twenty clients make two thousand calls over sockets of their own."""
        async with served(world.app) as server:
            pairs = [(world.acme, world.globex), (world.globex, world.acme)] * (CLIENTS // 2)
            found = await asyncio.gather(*(_work(world, server, *pair) for pair in pairs))

        asked = [number % 7 for number in range(CALLS_EACH)]
        assert found == [CALLS_EACH - asked.count(6)] * CLIENTS


async def _work(world: World, server: Served, mine: Provisioned, theirs: Provisioned) -> int:
    """Return how many answers held what is one's own; none may hold what is not."""
    names = (mine.tenant.name, theirs.tenant.name)
    own, foreign = (world.canaries[name] for name in names)
    requests = requests_of(*names)
    found = 0
    async with server.client(x_mcp_token=await world.mcp_token(mine)) as client:
        for number in range(CALLS_EACH):
            body, headers = requests[number % len(requests)]
            response = await post(client, body, **headers)
            assert response.status_code == 200, response.text
            assert foreign not in response.text
            found += own in response.text
    return found
