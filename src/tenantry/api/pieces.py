"""Answers that are sent piece by piece: large ones, slow ones, and those that go on.

Until the first piece is there nothing is sent, so an error still has its own status. After
that there is no way to tell one, and the connection is cut: an answer that looks whole, is.
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

# How long a caller and whoever is between us hear nothing.
KEEP_ALIVE_SECONDS = 10.0
# An answer of fewer bytes than this is sent whole, and is not worth compressing.
LARGE_BYTES = 32_768
# Half of what the best would save is all of what the network notices.
GZIP_LEVEL = 1
_GZIP_BITS = 16 + zlib.MAX_WBITS


class BrokenOff(Exception):
    """An answer could not be ended; what was sent of it must not look whole."""


class ClientHungUp(Exception):
    """The client went away while it was answered."""


@dataclass(slots=True)
class Pieces:
    """A body whose first piece is there.

    Attributes:
        first: What comes first.
        rest: What comes after it; None when that was all.
        compressor: What the client gets it through.
    """

    first: bytes
    rest: Source | None
    compressor: "zlib._Compress | None" = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing comes after the first piece."""
        return self.rest is None

    def compress(self) -> None:
        """Send it as gzip (RFC 1952): each piece can be read when it has arrived."""
        self.compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)

    async def close(self) -> None:
        """End what makes the pieces: nobody wants them."""
        if self.rest is not None:
            await self.rest.aclose()


async def begin(source: Source, *, at_least: int = 1) -> Pieces:
    """Return a body whose first piece has *at_least* so many bytes, if there are so many.

    Raises:
        Exception: Whatever *source* raises before that.
    """
    first = bytearray()
    async for piece in source:
        first += piece
        if len(first) >= at_least:
            return Pieces(bytes(first), source)
    return Pieces(bytes(first), None)


async def after_spaces(work: "asyncio.Task[bytes]", seconds: float) -> Source:
    """Yield a space, and one more every so many *seconds*, and at last what *work* returns.

    JSON may begin with spaces (RFC 8259, section 2), and whoever is between us and the client
    does not take the connection for dead. Work that nobody waits for is cancelled.
    """
    try:
        while not work.done():
            yield b" "
            await asyncio.wait({work}, timeout=seconds)
        yield work.result()
    finally:
        work.cancel()


async def send_body(pieces: Pieces, receive: Receive, send: Send) -> None:
    """Send a body of which the head is sent, for as long as the client is there.

    Raises:
        ClientHungUp: It went away.
        Exception: Whatever the source raises.
    """
    sending = asyncio.create_task(_send_all(pieces, send))
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


async def _send_all(pieces: Pieces, send: Send) -> None:
    await _send_piece(pieces, pieces.first, send)
    if pieces.rest is not None:
        async with contextlib.aclosing(pieces.rest) as rest:
            async for piece in rest:
                await _send_piece(pieces, piece, send)
    end = pieces.compressor.flush(zlib.Z_FINISH) if pieces.compressor else b""
    await send({"type": "http.response.body", "body": end})


async def _send_piece(pieces: Pieces, piece: bytes, send: Send) -> None:
    if pieces.compressor is not None:
        piece = pieces.compressor.compress(piece) + pieces.compressor.flush(zlib.Z_SYNC_FLUSH)
    await send({"type": "http.response.body", "body": piece, "more_body": True})
    # Sending waits only when the connection is full, and others want to be answered too.
    await asyncio.sleep(0)


async def _hang_up(receive: Receive) -> None:
    """Return when the client has gone; what it may still send is not looked at."""
    while (await receive())["type"] != "http.disconnect":
        pass
