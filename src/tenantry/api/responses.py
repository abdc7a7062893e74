"""From what a handler returns to the answer that is sent."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from tenantry.api import envelope
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import (
    EVENT_STREAM,
    GZIP,
    JSON,
    JSON_LINES,
    UNBUFFERED,
    Answer,
    Headers,
    Reply,
)
from tenantry.api.streaming import LARGE_BYTES, Source, after_spaces, begin
from tenantry.kit.negotiation import accepts_gzip


class TooLateToSay(Exception):
    """An answer turned out to have another status than the one that was sent ahead of it."""


def represent(endpoint: Endpoint, data: Any) -> Answer:
    """Return the answer of an endpoint that carries *data*."""
    if isinstance(data, Reply):
        tell = envelope.bare if endpoint.is_bare else envelope.success
        answer = tell(data.data, status=data.status)
        answer.headers.extend(data.headers)
    elif endpoint.is_bare:
        return envelope.bare(data)
    elif endpoint.response is None:
        return envelope.done(endpoint.message, status=endpoint.status)
    else:
        answer = envelope.success(data, status=endpoint.status)
    return answer


async def streamed_answer(
    endpoint: Endpoint, data: Source, headers: Iterable[tuple[bytes, bytes]]
) -> Answer:
    """Return the answer whose *data* come in chunks: JSON, JSON lines, or events.

    Args:
        endpoint: Whose data they are.
        data: The chunks.
        headers: Of the request: they say whether it takes gzip.

    Raises:
        Exception: Whatever the source of the data raises before the first chunk.
    """
    if endpoint.goes_on:
        chunks = await begin(data)
        return Answer(endpoint.status, chunks, [EVENT_STREAM, UNBUFFERED])
    body = data if endpoint.is_bare else envelope.streamed_success(data)
    chunks = await begin(body, at_least=LARGE_BYTES)
    answered: Headers = [JSON_LINES if endpoint.is_bare else JSON]
    if chunks.is_whole:
        return Answer(endpoint.status, chunks.first, answered, is_negotiated=True)
    if accepts_gzip(headers):
        chunks.compress()
        answered.append(GZIP)
    return Answer(endpoint.status, chunks, answered, is_negotiated=True)


async def long_answer(endpoint: Endpoint, work: Awaitable[Any], seconds: float) -> Answer:
    """Return the answer to *work*, or one that begins with spaces if it takes longer.

    Args:
        endpoint: Whose work it is.
        work: What its handler does.
        seconds: After how long the first space is sent; and so every other one.

    Raises:
        Exception: Whatever the handler raises before that.
    """
    working = asyncio.create_task(_work(endpoint, work))
    try:
        await asyncio.wait({working}, timeout=seconds)
    except BaseException:
        working.cancel()
        raise
    if working.done():
        return working.result()
    chunks = await begin(after_spaces(asyncio.create_task(_late(endpoint, working)), seconds))
    return Answer(endpoint.status, chunks, [JSON, UNBUFFERED])


async def _work(endpoint: Endpoint, work: Awaitable[Any]) -> Answer:
    return represent(endpoint, await work)


async def _late(endpoint: Endpoint, working: "asyncio.Task[Answer]") -> bytes:
    answer = await working
    if answer.status != endpoint.status:
        raise TooLateToSay
    assert isinstance(answer.body, bytes)
    return answer.body
