"""The application on a real socket: what an HTTP server and its clients make of its answers."""

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

from tenantry.api.http.connections import ConnectionLimits, Connections
from tenantry.api.http.protocol import protocol_for
from tenantry.kit.metrics import Metrics

READ_SECONDS_MAX = 60.0  # of a busy machine; what hangs never ends
READ_BYTES = 65_536


@dataclass
class Line:
    """A connection to the server, on which bytes are sent and read as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> "Head":
        """Send a request, and return the head of the answer."""
        lines = [f"{method} {path} HTTP/1.1", "host: tenantry.test"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body or method in {"POST", "PUT", "PATCH"}:
            lines.append(f"content-length: {len(body)}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await self.head()

    async def head(self) -> "Head":
        async with asyncio.timeout(READ_SECONDS_MAX):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").strip().split("\r\n")
        said = dict(line.lower().split(": ", 1) for line in lines)
        return Head(int(first.split()[1]), said)

    async def chunk(self) -> bytes:
        """Return the next chunk of a chunked body: empty when it has ended.

        Raises:
            asyncio.IncompleteReadError: The connection was cut before its end.
        """
        async with asyncio.timeout(READ_SECONDS_MAX):
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Return all chunks that are left."""
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body

    def hang_up(self) -> None:
        self.writer.transport.abort()


@dataclass(frozen=True)
class Head:
    """The head of an answer."""

    status: int
    said: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """An application that answers on a socket."""

    host: str
    port: int
    server: uvicorn.Server
    metrics: Metrics

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=False,  # noqa: S501 - it is plain HTTP, and a TLS context takes 40 ms
            trust_env=False,
            base_url=f"http://{self.host}:{self.port}",
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            timeout=READ_SECONDS_MAX,
        )

    @asynccontextmanager
    async def line(self, address: str = "127.0.0.1") -> AsyncIterator[Line]:
        """Connect from an *address* of the loopback network."""
        reader, writer = await asyncio.open_connection(
            self.host, self.port, limit=READ_BYTES, local_addr=(address, 0)
        )
        try:
            yield Line(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def served(
    app: ASGIApp, *, port: int = 0, limits: ConnectionLimits | None = None
) -> AsyncIterator[Served]:
    """Yield the application, answering as `tenantry serve` lets it answer."""
    metrics = Metrics()
    connections = Connections(limits or ConnectionLimits(), metrics)
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=protocol_for(connections),  # type: ignore[arg-type]
        host="127.0.0.1",
        port=port,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)

    async def serve() -> None:
        async with connections.checked():
            await server.serve()

    running = asyncio.create_task(serve())
    async with asyncio.timeout(READ_SECONDS_MAX):
        await server.ready.wait()
    host, bound = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield Served(host, bound, server, metrics)
    finally:
        server.should_exit = True
        await running


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def readable(compressed: bytes) -> bytes:
    """Return what a client can read of the beginning of a gzip stream."""
    return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(compressed)


def unzipped(compressed: bytes) -> bytes:
    """Return a whole gzip stream, decompressed."""
    return gzip.decompress(compressed)
