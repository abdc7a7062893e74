"""A read-only tenant: every endpoint and tool that reads works, every other one is rejected."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import pytest_asyncio
import sqlalchemy as sa

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.catalog.tables import tenant
from tenantry.mcp.tools import TOOLS, Tool
from testkit.asgi import Answer
from testkit.decision_table import level_of
from testkit.request_samples import params
from tests.contracts.ledger import essence
from tests.contracts.stage import Stage, as_admin

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

MESSAGE = "The tenant is read-only: its data can be read, and every write is rejected."
MALFORMED = b'{"email": '
TENANT_LEVELS = {"Tenant", "Tenant login", "Public", "MCP"}
ADMIN_USERS = "/api/admin/tenants/{tenantId}/users"
# A login is recorded in the catalog; the tools of MCP are checked one by one.
NO_WRITES = {"/api/tenant/auth/login", "/mcp"}
# Of the tools that read.
HELLO = {"slug": "hello-from-acme"}
ARGUMENTS = {
    "search_posts": {"query": "Hello"},
    "get_post": HELLO,
    "list_versions": HELLO,
    "get_version": {**HELLO, "number": 1},
}


def is_of_data(endpoint: Endpoint) -> bool:
    """Whether the endpoint is about the data of one tenant."""
    return level_of(endpoint.path) in TENANT_LEVELS or endpoint.path.startswith(ADMIN_USERS)


def is_writing(endpoint: Endpoint) -> bool:
    return endpoint.method != "GET" and endpoint.path not in NO_WRITES


OF_DATA = [one for one in ENDPOINTS if is_of_data(one)]
WRITING = params([one for one in OF_DATA if is_writing(one)])
READING = params([one for one in OF_DATA if not is_writing(one)])
READERS = {"whoami", "list_modules", "list_posts", *ARGUMENTS}
WRITING_TOOLS = [pytest.param(one, id=one.name) for one in TOOLS if one.name not in READERS]
READING_TOOLS = [pytest.param(one, id=one.name) for one in TOOLS if one.name in READERS]


@pytest_asyncio.fixture(name="frozen", scope="module", loop_scope="module")
async def _frozen(stage: Stage) -> AsyncIterator[Stage]:
    """A stage whose tenant acme is read-only."""
    await as_admin(stage, "PATCH", _path(stage), isReadOnly=True)
    yield stage
    await as_admin(stage, "PATCH", _path(stage), isReadOnly=False)


@asynccontextmanager
async def no_database(stage: Stage) -> AsyncIterator[None]:
    """Make the database of acme unreachable: a request that uses it is a 503."""
    acme = stage.world.acme.tenant
    await _rename(stage, "tenantry_missing")
    try:
        yield
    finally:
        await _rename(stage, acme.database_name)


@pytest.mark.parametrize("endpoint", WRITING)
class TestWritingEndpoint:
    async def test_is_rejected_before_the_database_is_used(self, frozen: Stage, endpoint: Endpoint):
        bodies = [_body(frozen, endpoint)]
        if endpoint.reads_body and level_of(endpoint.path) in TENANT_LEVELS:
            bodies.append(MALFORMED)
        async with no_database(frozen):
            await frozen.world.services.databases.forget(frozen.world.acme.tenant.id)
            answers = [
                await frozen.ask(endpoint, headers=frozen.good(endpoint), body=body)
                for body in bodies
            ]

        for answer in answers:
            assert (answer.status, answer.said["x-error-code"]) == (403, "tenant_read_only")
            assert answer.json() == {"success": False, "data": None, "message": MESSAGE}

    async def test_changes_nothing(self, frozen: Stage, endpoint: Endpoint):
        before = essence(frozen.ledger.dump(frozen.world.acme.tenant))

        answer = await frozen.ask(
            endpoint, headers=frozen.good(endpoint), body=_body(frozen, endpoint)
        )

        assert answer.status == 403
        assert essence(frozen.ledger.dump(frozen.world.acme.tenant)) == before
        assert all(line.startswith("catalog.tenant ") for line in frozen.changes())


@pytest.mark.parametrize("endpoint", READING)
class TestReadingEndpoint:
    async def test_works_and_changes_nothing_in_the_tenant(self, frozen: Stage, endpoint: Endpoint):
        before = essence(frozen.ledger.dump(frozen.world.acme.tenant))

        answer = await frozen.ask(
            endpoint,
            headers=frozen.good(endpoint),
            body=_body(frozen, endpoint) if endpoint.reads_body else b"",
            query=frozen.query(endpoint),
        )

        assert answer.status == 200, answer.body
        assert essence(frozen.ledger.dump(frozen.world.acme.tenant)) == before


class TestTool:
    @pytest.mark.parametrize("tool", WRITING_TOOLS)
    async def test_that_writes_is_rejected_before_its_arguments_are_read(
        self, frozen: Stage, tool: Tool
    ):
        before = essence(frozen.ledger.dump(frozen.world.acme.tenant))

        result = await _call(frozen, tool, {})

        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": MESSAGE}]
        assert essence(frozen.ledger.dump(frozen.world.acme.tenant)) == before

    @pytest.mark.parametrize("tool", READING_TOOLS)
    async def test_that_reads_works(self, frozen: Stage, tool: Tool):
        before = essence(frozen.ledger.dump(frozen.world.acme.tenant))

        result = await _call(frozen, tool, ARGUMENTS.get(tool.name, {}))

        assert "isError" not in result, result
        assert essence(frozen.ledger.dump(frozen.world.acme.tenant)) == before


class TestTenant:
    async def test_is_shown_as_read_only(self, frozen: Stage):
        shown = await as_admin(frozen, "GET", _path(frozen))
        listed = await as_admin(frozen, "GET", "/api/admin/tenants?isReadOnly=true")

        assert (shown["isActive"], shown["isReadOnly"]) == (True, True)
        assert listed["items"] == [shown]

    async def test_keeps_its_credentials_under_the_control_of_admins(self, frozen: Stage):
        """Keys and McpTokens are rows of the catalog: a leaked one can be revoked at any time."""
        key = await as_admin(frozen, "POST", f"{_path(frozen)}/api-keys")

        await as_admin(frozen, "DELETE", f"{_path(frozen)}/api-keys/{key['id']}")


async def _call(stage: Stage, tool: Tool, arguments: dict[str, str]) -> dict[str, object]:
    endpoint = next(one for one in ENDPOINTS if one.path == "/mcp")
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool.name, "arguments": arguments},
    }
    headers = [("x-mcp-token", stage.mcp_token)]
    answer: Answer = await stage.ask(endpoint, headers=headers, body=msgspec.json.encode(message))
    assert answer.status == 200, answer.body
    result: dict[str, object] = answer.json()["result"]
    return result


def _path(stage: Stage) -> str:
    return f"/api/admin/tenants/{stage.world.acme.tenant.id}"


def _body(stage: Stage, endpoint: Endpoint) -> bytes:
    return msgspec.json.encode(stage.body(endpoint)) if endpoint.reads_body else b""


async def _rename(stage: Stage, database_name: str) -> None:
    """Change where the catalog says that the database of acme is."""
    of_acme = tenant.c.id == stage.world.acme.tenant.id
    changed = sa.update(tenant).where(of_acme).values(database_name=database_name)
    await stage.ledger.write(stage.ledger.catalog, changed)
    stage.world.services.catalog.cache.clear()
