"""A TCP proxy before a server that can fall silent, and come back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

BYTES_MAX = 65_536


class BlackHole:
    """Forwards bytes in both directions while it is open.

    While it is silent it accepts connections and bytes, and forwards nothing: neither end sees
    an error. What it has kept is forwarded when it is open again.

    Args:
        url: Of the server behind it.
    """

    def __init__(self, url: str) -> None:
        self._behind = urlsplit(url)
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._served: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of the server, through the proxy."""
        user, _, _ = self._behind.netloc.rpartition("@")
        netloc = f"{user}@127.0.0.1:{self.port}"
        return urlunsplit(self._behind._replace(netloc=netloc))

    def through(self, url: str) -> str:
        """Return *url*, of a database on the same server, through the proxy."""
        return urlunsplit(urlsplit(self.url)._replace(path=urlsplit(url).path))

    def fall_silent(self) -> None:
        self._is_open.clear()

    def come_back(self) -> None:
        self._is_open.set()

    def cut(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def end(self) -> None:
        """Cut every connection, and wait until all of them are closed."""
        self.come_back()
        self.cut()
        if self._served:
            await asyncio.wait(self._served)

    def serve(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(read, write))
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _serve(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        behind_read, behind_write = await asyncio.open_connection(
            self._behind.hostname, self._behind.port
        )
        self._writers |= {write, behind_write}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._forward(read, behind_write))
            group.create_task(self._forward(behind_read, write))
        for writer in (write, behind_write):
            self._writers.discard(writer)
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _forward(self, read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await read.read(BYTES_MAX):
                await self._is_open.wait()
                write.write(data)
        write.transport.abort()


@asynccontextmanager
async def black_hole(url: str) -> AsyncIterator[BlackHole]:
    """Yield a proxy before the server at *url*; it forwards at first."""
    hole = BlackHole(url)
    server = await asyncio.start_server(hole.serve, "127.0.0.1", 0)
    hole.port = server.sockets[0].getsockname()[1]
    try:
        yield hole
    finally:
        server.close()
        await hole.end()
