"""Streamed responses: large ones, slow ones, and event streams.

Nothing is sent before the first chunk exists, so an earlier error has its own status. After that,
an error closes the connection without the end of the body, so that a client never takes an
incomplete response for a complete one.
"""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tenantry.kit.clock import monotonic_seconds

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Source = AsyncGenerator[bytes, None]
Result = TypeVar("Result")

# The longest time without a byte for the client and for proxies.
KEEP_ALIVE_SECONDS = 10.0
# A response of fewer bytes is neither streamed nor compressed.
LARGE_BYTES = 32_768
# How often the access of the caller is checked while a response is sent.
READMIT_SECONDS = 1.0
# The fastest level.
GZIP_LEVEL = 1
_GZIP_BITS = 16 + zlib.MAX_WBITS


class ResponseAborted(Exception):
    """A response could not be completed; the server closes the connection without its end."""


class ClientHungUp(Exception):
    """The client disconnected before the response was complete."""


@dataclass(slots=True)
class StreamedBody:
    """A body in chunks; the first one exists.

    Attributes:
        first: The first chunk.
        rest: The source of the other chunks; None if there are none.
        compressor: Compresses the chunks; None to send them as they are.
    """

    first: bytes
    rest: Source | None
    compressor: "zlib._Compress | None" = None

    @property
    def is_whole(self) -> bool:
        """Whether the first chunk is the whole body."""
        return self.rest is None

    def compress(self) -> None:
        """Send the body as gzip (RFC 1952), flushed after each chunk."""
        self.compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)

    async def close(self) -> None:
        """Close the source of the chunks."""
        if self.rest is not None:
            await self.rest.aclose()


async def begin(source: Source, *, at_least: int = 1) -> StreamedBody:
    """Return a body; its first chunk has *at_least* this many bytes, or is the whole body.

    Raises:
        Exception: Any error of *source* before that.
    """
    first = bytearray()
    async for chunk in source:
        first += chunk
        if len(first) >= at_least:
            return StreamedBody(bytes(first), source)
    return StreamedBody(bytes(first), None)


async def while_admitted(source: Source, readmit: Callable[[], Awaitable[object]]) -> Source:
    """Yield the chunks of *source* while the caller has access.

    Args:
        source: The chunks. An empty one is not sent, and only gives time for the check.
        readmit: Raises if the caller has lost access. It is called at most every
            `READMIT_SECONDS`, before a chunk.

    Raises:
        Exception: Any error of *source* and *readmit*.
    """
    admitted_at = monotonic_seconds()
    async with contextlib.aclosing(source):
        async for chunk in source:
            if monotonic_seconds() - admitted_at > READMIT_SECONDS:
                await readmit()
                admitted_at = monotonic_seconds()
            if chunk:
                yield chunk


async def if_admitted(work: Awaitable[Result], readmit: Callable[[], Awaitable[object]]) -> Result:
    """Return the result of *work*, unless its caller has lost access in the meantime.

    Raises:
        Exception: Any error of *work* and *readmit*, which is called after more than
            `READMIT_SECONDS`.
    """
    began = monotonic_seconds()
    result = await work
    if monotonic_seconds() - began > READMIT_SECONDS:
        await readmit()
    return result


async def after_spaces(work: "asyncio.Task[StreamedBody]", seconds: float) -> Source:
    """Yield a space every *seconds* until *work* is done, and then the body that it returns.

    JSON may start with spaces (RFC 8259, section 2), and they keep proxies from closing the
    connection. The work is cancelled when the generator is closed.
    """
    try:
        while not work.done():
            yield b" "
            await asyncio.wait({work}, timeout=seconds)
        body = work.result()
        yield body.first
        if body.rest is not None:
            async for chunk in body.rest:
                yield chunk
    finally:
        work.cancel()
        if work.done() and not work.cancelled() and work.exception() is None:
            await work.result().close()


async def send_body(chunks: StreamedBody, receive: Receive, send: Send) -> None:
    """Send a body, after the head, until its end or until the client disconnects.

    Raises:
        ClientHungUp: The client has disconnected.
        Exception: Any error of the source.
    """
    sending = asyncio.create_task(_send_all(chunks, send))
    listening = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, listening):
            task.cancel()
        await asyncio.wait({sending, listening})
    if sending.cancelled():
        raise ClientHungUp
    sending.result()


async def _send_all(chunks: StreamedBody, send: Send) -> None:
    await _send_chunk(chunks, chunks.first, send)
    if chunks.rest is not None:
        async with contextlib.aclosing(chunks.rest) as rest:
            async for chunk in rest:
                await _send_chunk(chunks, chunk, send)
    end = chunks.compressor.flush(zlib.Z_FINISH) if chunks.compressor else b""
    await send({"type": "http.response.body", "body": end})


async def _send_chunk(chunks: StreamedBody, chunk: bytes, send: Send) -> None:
    if chunks.compressor is not None:
        chunk = chunks.compressor.compress(chunk) + chunks.compressor.flush(zlib.Z_SYNC_FLUSH)
    await send({"type": "http.response.body", "body": chunk, "more_body": True})
    # Sending yields to the event loop only when the buffer is full; other requests need turns.
    await asyncio.sleep(0)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected; its other messages are ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass
