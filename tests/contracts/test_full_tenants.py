"""A tenant at its size limit: what adds content is rejected, and everything else works."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
import sqlalchemy as sa

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.catalog.tables import tenant
from tenantry.mcp.tools import TOOLS
from testkit.decision_table import level_of
from testkit.request_samples import params
from tests.contracts.ledger import difference
from tests.contracts.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

# The others are logins and logouts, passwords and McpTokens, to unpublish and to delete.
ADDING = {
    ("POST", "/api/tenant/blog/posts"),
    ("PUT", "/api/tenant/blog/posts/{postId}"),
    ("POST", "/api/tenant/blog/posts/{postId}/publish"),
    ("POST", "/api/tenant/blog/posts/{postId}/versions/{number}/restore"),
    ("POST", "/api/tenant/blog/deleted-posts/{deletedPostId}/restore"),
    ("PUT", "/api/tenant/auth/profile"),
    ("POST", "/api/tenant/invitations"),
    ("POST", "/api/tenant/users"),
}
TOOLS_ADDING = {"create_post", "update_post", "publish_post", "update_profile"}
OF_TENANTS = [
    one for one in ENDPOINTS if level_of(one.path) in {"Tenant", "Tenant login", "Public", "MCP"}
]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _full(stage: Stage) -> AsyncIterator[None]:
    """Every database is larger than a byte."""
    await stage.ledger.write(stage.ledger.catalog, sa.update(tenant).values(size_bytes_max=1))
    stage.world.services.catalog.cache.clear()
    yield
    await stage.restore()


@pytest.mark.parametrize("endpoint", params(OF_TENANTS))
async def test_only_what_adds_content_is_rejected(stage: Stage, endpoint: Endpoint) -> None:
    before = stage.now()
    body = msgspec.json.encode(stage.body(endpoint)) if endpoint.reads_body else b""

    answer = await stage.ask(
        endpoint, headers=stage.good(endpoint), body=body, query=stage.query(endpoint)
    )

    is_full = answer.status == 507
    assert is_full == ((endpoint.method, endpoint.path) in ADDING), answer.body
    assert is_full or answer.status < 400, answer.body
    if is_full:
        assert answer.said["x-error-code"] == "tenant_full"
        assert answer.json()["message"].endswith("ask the operator for a higher limit.")
        assert difference(before, stage.now()) == []


@pytest.mark.parametrize("endpoint", params(one for one in OF_TENANTS if one.adds))
async def test_an_ended_session_is_told_first(stage: Stage, endpoint: Endpoint) -> None:
    acme = stage.world.acme
    ended = f"Bearer {await stage.world.token(acme, generation=99)}"
    headers = [("x-api-key", acme.key.secret), ("authorization", ended)]

    answer = await stage.ask(endpoint, headers=headers, body=b"{")

    assert answer.status == 401


@pytest.mark.parametrize("endpoint", params(one for one in OF_TENANTS if one.adds))
async def test_the_form_of_the_body_is_checked_first(stage: Stage, endpoint: Endpoint) -> None:
    headers = [*stage.good(endpoint), ("content-type", "text/xml")]

    answer = await stage.ask(endpoint, headers=headers, body=b"<a/>")

    assert answer.status == (415 if endpoint.reads_body else 507)


async def test_the_tools_are_those_of_the_endpoints() -> None:
    assert {one.name for one in TOOLS if one.requirements.adds} == TOOLS_ADDING
