"""Text that is slow to normalise does not hold up the process, whichever member it is sent in."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec import inspect

from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from tenantry.mcp.tools import TOOLS, Tool
from testkit.asgi import ask
from testkit.request_samples import items_of, kinds_of, members_of, params, path_of
from testkit.response_form import faults
from tests.contracts.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

# Sorting marks of two classes into one order is quadratic: 8 s and 50 s for these.
MARKS = {
    "64 kB": "a" + "\u0300" * 16_000 + "\u0316" * 16_000,
    "160 kB": "a" + "\u0300" * 40_000 + "\u0316" * 40_000,
}
# Without a fault it is some milliseconds.
STALL_SECONDS_MAX = 0.5
BEAT_SECONDS = 0.005

ENDPOINTS_WITH_TEXT = [
    one
    for one in ENDPOINTS
    if "{slug}" in one.path
    or any(
        inspect.StrType in kinds_of(member.type) | items_of(member.type)
        for member in members_of(one).values()
    )
]


@asynccontextmanager
async def stalls(stage: Stage) -> AsyncIterator[list[float]]:
    """Yield how long the event loop worked before it answered each request for /livez.

    In seconds of CPU, which do not depend on what else the machine does.
    """
    found: list[float] = [0]

    async def beat() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(BEAT_SECONDS)
            assert (await ask(stage.world.app, "GET", "/livez")).status == 200
            found.append(time.thread_time() - began)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(2 * BEAT_SECONDS)
    try:
        yield found
        await asyncio.sleep(2 * BEAT_SECONDS)
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating


def members_with_text(endpoint: Endpoint) -> Iterator[tuple[str, bool]]:
    """Return the members that may hold text, and whether they hold a list of it."""
    for name, member in members_of(endpoint).items():
        if inspect.StrType in kinds_of(member.type):
            yield name, False
        if inspect.StrType in items_of(member.type):
            yield name, True


@pytest.mark.parametrize("size", MARKS)
@pytest.mark.parametrize("endpoint", params(ENDPOINTS_WITH_TEXT))
async def test_an_endpoint_does_not_hold_up_others(stage: Stage, endpoint: Endpoint, size: str):
    """In every member, and in the slug of a path; the answer is no 5xx."""
    text, wrong = MARKS[size], []
    async with stalls(stage) as found:
        for name, is_list in members_with_text(endpoint):
            value = [text] if is_list else text
            if endpoint.reads_body:
                body = msgspec.json.encode({**stage.body(endpoint), name: value})
                answer = await stage.ask(endpoint, headers=stage.good(endpoint), body=body)
            else:
                query = f"{name}={quote(text)}".encode()
                answer = await stage.ask(endpoint, headers=stage.good(endpoint), query=query)
            wrong += [f"{name}: {fault}" for fault in faults(answer, endpoint.path)]
        if "{slug}" in endpoint.path:
            path = path_of(endpoint, {**stage.ids, "slug": text})
            answer = await stage.ask(endpoint, headers=stage.good(endpoint), path=path)
            assert answer.status == 404
    await stage.restore()

    assert wrong == []
    assert max(found) < STALL_SECONDS_MAX


@pytest.mark.parametrize("size", MARKS)
@pytest.mark.parametrize("tool", [pytest.param(one, id=one.name) for one in TOOLS])
async def test_a_tool_does_not_hold_up_others(stage: Stage, tool: Tool, size: str):
    """In every argument of every tool."""
    info = inspect.type_info(tool.takes)
    assert isinstance(info, inspect.StructType)
    good: dict[str, Any] = {
        field.encode_name: "changed" for field in info.fields if field.required
    } | ({"slug": stage.ids["slug"]} if "slug" in {one.encode_name for one in info.fields} else {})
    headers = [
        ("x-mcp-token", stage.mcp_token),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
    ]
    async with stalls(stage) as found:
        for field in info.fields:
            kinds, items = kinds_of(field.type), items_of(field.type)
            if inspect.StrType not in kinds | items:
                continue
            value = [MARKS[size]] if inspect.StrType in items else MARKS[size]
            params_ = {"name": tool.name, "arguments": {**good, field.encode_name: value}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params_}
            answer = await ask(
                stage.world.app,
                "POST",
                "/mcp",
                headers=headers,
                body=msgspec.json.encode(message),
            )
            assert answer.status == 200, answer.body
            assert "error" not in answer.json(), answer.body
    await stage.restore()

    assert max(found) < STALL_SECONDS_MAX
