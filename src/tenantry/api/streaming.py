"""Streamed responses: large ones, slow ones, and those that go on.

Nothing is sent before the first chunk exists, so an error until then has its own status. After
that the connection is cut on an error: a response that looks complete is complete.
"""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Source = AsyncGenerator[bytes, None]

# The longest silence for the client and for proxies in between.
KEEP_ALIVE_SECONDS = 10.0
# A response of fewer bytes is neither streamed nor compressed.
LARGE_BYTES = 32_768
# Half of what the best would save is all of what the network notices.
GZIP_LEVEL = 1
_GZIP_BITS = 16 + zlib.MAX_WBITS


class ResponseAborted(Exception):
    """A response could not be completed; the part that was sent must not look complete."""


class ClientHungUp(Exception):
    """The client disconnected before the response was complete."""


@dataclass(slots=True)
class StreamedBody:
    """A body whose first chunk exists.

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
        """Whether nothing comes after the first chunk."""
        return self.rest is None

    def compress(self) -> None:
        """Send it as gzip (RFC 1952), flushed after each chunk."""
        self.compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)

    async def close(self) -> None:
        """Close the source of the chunks."""
        if self.rest is not None:
            await self.rest.aclose()


async def begin(source: Source, *, at_least: int = 1) -> StreamedBody:
    """Return a body whose first chunk has *at_least* so many bytes, if the body has.

    Raises:
        Exception: Whatever *source* raises before that.
    """
    first = bytearray()
    async for chunk in source:
        first += chunk
        if len(first) >= at_least:
            return StreamedBody(bytes(first), source)
    return StreamedBody(bytes(first), None)


async def after_spaces(work: "asyncio.Task[bytes]", seconds: float) -> Source:
    """Yield a space, and one more every so many *seconds*, and at last what *work* returns.

    JSON may begin with spaces (RFC 8259, section 2), and they keep proxies from closing the
    connection. The work is cancelled when the generator is closed.
    """
    try:
        while not work.done():
            yield b" "
            await asyncio.wait({work}, timeout=seconds)
        yield work.result()
    finally:
        work.cancel()


async def send_body(chunks: StreamedBody, receive: Receive, send: Send) -> None:
    """Send a body of which the head is sent, for as long as the client is there.

    Raises:
        ClientHungUp: It went away.
        Exception: Whatever the source raises.
    """
    sending = asyncio.create_task(_send_all(chunks, send))
    listening = asyncio.create_task(_hang_up(receive))
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
    # Sending waits only when the connection is full, and others want to be answered too.
    await asyncio.sleep(0)


async def _hang_up(receive: Receive) -> None:
    """Return when the client has disconnected; what it still sends is ignored."""
    while (await receive())["type"] != "http.disconnect":
        pass
