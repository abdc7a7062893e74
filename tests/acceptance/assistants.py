"""MCP clients: the SDK's own client, and raw JSON-RPC messages."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import World

PATH = "/mcp"
NEWEST = "2026-07-28"
BEFORE = "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
Revision = Literal["2026-07-28", "2025-11-25"]


@asynccontextmanager
async def connected(
    url: str, revision: str = NEWEST, app: Any = None, **headers: str
) -> AsyncIterator[Client]:
    """Yield the SDK's client of the server at *url*, or of *app* without a socket."""
    transport = None if app is None else httpx2.ASGITransport(app)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(transport=transport, headers=named) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode="legacy" if revision == BEFORE else revision,
        ) as client,
    ):
        yield client


@asynccontextmanager
async def assistant(world: World, token: str, revision: str = NEWEST) -> AsyncIterator[Client]:
    """Yield a client that has an McpToken."""
    async with connected(f"http://127.0.0.1{PATH}", revision, world.app, x_mcp_token=token) as one:
        yield one


def data_of(result: types.CallToolResult) -> Any:
    """Return the values of a result, which must be a success that says them as text too."""
    assert not result.is_error, result.content
    [content] = result.content
    assert isinstance(content, types.TextContent)
    said = json.loads(content.text)
    # The tools that return long texts return them once.
    assert result.structured_content in (said, None)
    return said


def refusal_of(result: types.CallToolResult) -> str:
    """Return the text of a result, which must be an error."""
    assert result.is_error
    assert result.structured_content is None
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def message(method: str, params: Mapping[str, Any] | None = None, *, id_: object = 1) -> bytes:
    """Return a request of the revision before the newest, or a notification if *id_* is None."""
    said: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if id_ is not None:
        said["id"] = id_
    if params is not None:
        said["params"] = params
    return json.dumps(said).encode()


def newest(method: str, **params: object) -> tuple[bytes, dict[str, str]]:
    """Return a request of the newest revision: the message, and the headers that repeat it."""
    named = params.get("name", params.get("uri"))
    headers = {"mcp_protocol_version": NEWEST, "mcp_method": method}
    headers |= {} if named is None else {"mcp_name": str(named)}
    return message(method, {**params, "_meta": ENVELOPE}), headers


def call(tool: str, **arguments: object) -> bytes:
    return message("tools/call", {"name": tool, "arguments": arguments})


async def post(client: httpx.AsyncClient, body: bytes, **headers: str) -> httpx.Response:
    """Send a message, and return the answer of HTTP."""
    named = {"mcp-protocol-version": BEFORE, "content-type": "application/json"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(PATH, content=body, headers=named)


def answer_of(response: httpx.Response, status: int = 200) -> Any:
    """Return an answer of JSON-RPC."""
    assert response.status_code == status, response.text
    assert response.headers["x-request-id"]
    said = response.json()
    assert said["jsonrpc"] == "2.0"
    return said


def error_of(response: httpx.Response, code: int, status: int = 200) -> str:
    """Return the message of an error of JSON-RPC that has this *code*."""
    said = answer_of(response, status)
    assert said.keys() == {"jsonrpc", "id", "error"}
    assert said["error"]["code"] == code, said
    return str(said["error"]["message"])
