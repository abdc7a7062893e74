"""A TCP proxy that hangs, delays, cuts and slices, when it is asked to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

CHUNK_BYTES = 65_536
DELAY_SECONDS = 0.5
BYTES_PER_SECOND = 4_096
LIMIT_BYTES = 200
SLICE_BYTES = 16
# What each does to the bytes between a client and the server.
TOXICS = {
    "hang": "nothing passes, and connections stay open",
    "latency": f"everything is {DELAY_SECONDS:g} s late",
    "reset": "connections are reset",
    "limit": f"connections end after {LIMIT_BYTES} bytes",
    "slow close": "an end is passed on late",
    "bandwidth": f"{BYTES_PER_SECOND} bytes pass in a second",
    "slices": f"{SLICE_BYTES} bytes pass at a time",
}


class Proxy:
    """Passes connections on to a port of the loopback, and spoils them while it is poisoned.

    Args:
        target: The port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._toxic = ""
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut everything."""
        self._server.close()
        self._cut()

    @asynccontextmanager
    async def poisoned(self, toxic: str) -> AsyncIterator[None]:
        """Apply a toxic to all connections, old and new, while the block lasts."""
        self._toxic = toxic
        if toxic == "reset":
            self._cut()
        try:
            yield
        finally:
            self._toxic = ""
            self._changed.set()
            self._changed = asyncio.Event()
            if toxic == "hang":
                self._cut()  # as a network does that has lost the connections' state

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._toxic == "reset":
            writer.transport.abort()
            return
        self._writers.add(writer)
        to_server: asyncio.StreamWriter | None = None
        try:
            if self._toxic == "hang":
                await self._changed.wait()
                return
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(to_server)
            passing = [
                asyncio.create_task(self._pass(reader, to_server)),
                asyncio.create_task(self._pass(from_server, writer)),
            ]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for one in passing:
                one.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
        except OSError:
            pass
        finally:
            for one in (writer, to_server):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(CHUNK_BYTES):
                passed += len(chunk)
                toxic = self._toxic
                if toxic == "hang":
                    await self._changed.wait()
                    return
                if toxic == "latency":
                    await asyncio.sleep(DELAY_SECONDS)
                if toxic == "limit" and passed > LIMIT_BYTES:
                    writer.write(chunk[:LIMIT_BYTES])
                    await writer.drain()
                    return
                if toxic in {"bandwidth", "slices"}:
                    await self._drip(writer, chunk, toxic)
                else:
                    writer.write(chunk)
                await writer.drain()
            if self._toxic == "slow close":
                await asyncio.sleep(DELAY_SECONDS)

    async def _drip(self, writer: asyncio.StreamWriter, chunk: bytes, toxic: str) -> None:
        size = SLICE_BYTES if toxic == "slices" else BYTES_PER_SECOND // 10
        pause = 0.001 if toxic == "slices" else 0.1
        for at in range(0, len(chunk), size):
            writer.write(chunk[at : at + size])
            await writer.drain()
            await asyncio.sleep(pause)
