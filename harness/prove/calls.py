"""A client that reports what it sent and received, and costs little."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from harness.api import LOGIN, Headers, key_of
from harness.world import Tenant

Given = TypeVar("Given")
Made = TypeVar("Made")

SECONDS_MAX = 60.0
LIMIT_BYTES = 4 * 2**20
LOOPBACK = "127.0.0.1"


class CutShort(ConnectionError):
    """The server closed the connection before the answer was whole."""


@dataclass(frozen=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    seconds: float
    said: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the headers easy to find."""
        object.__setattr__(self, "said", dict(self.headers))

    def json(self) -> Any:
        """Return the body, decoded."""
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        """The data of the envelope."""
        return self.json()["data"]

    @property
    def raw(self) -> bytes:
        """Everything that the caller can read."""
        head = "\r\n".join(f"{name}: {value}" for name, value in self.headers)
        return f"{self.status}\r\n{head}\r\n\r\n".encode() + self.body

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300

    def __str__(self) -> str:
        """The status and the beginning of the body."""
        return f"{self.status} {self.body[:160].decode(errors='replace')}"


class Line:
    """A keep-alive connection, opened when it is needed.

    Args:
        port: Of the server.
        headers: Of every request.
        address: From which it comes.
    """

    def __init__(self, port: int, headers: Headers | None = None, *, address: str = "") -> None:
        self.port = port
        self._headers = dict(headers or {})
        self._address = address
        self._pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Headers | None = None,
        seconds: float = SECONDS_MAX,
    ) -> Answer:
        """Send a request and return the answer; *body* is JSON unless it is bytes.

        Raises:
            OSError, TimeoutError: There was none.
        """
        is_reused = self._pair is not None
        try:
            return await self._ask(method, path, body, headers or {}, seconds)
        except (CutShort, ConnectionResetError, BrokenPipeError):
            if not is_reused:
                raise
            # The server may close an idle connection at any time.
            return await self._ask(method, path, body, headers or {}, seconds)

    async def send(
        self, method: str, path: str, body: object = None, *, headers: Headers | None = None
    ) -> None:
        """Send a request, and wait for nothing."""
        _, writer = await self._open()
        writer.write(request(method, path, {**self._headers, **(headers or {})}, body))

    async def get(self, path: str, **more: Any) -> Answer:
        """Ask with GET."""
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: object = None, **more: Any) -> Answer:
        """Ask with POST."""
        return await self.ask("POST", path, body, **more)

    def close(self) -> None:
        """Close the connection at once."""
        if self._pair is not None:
            self._pair[1].transport.abort()
            self._pair = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._pair is None:
            local = (self._address, 0) if self._address else None
            self._pair = await asyncio.open_connection(
                LOOPBACK, self.port, limit=LIMIT_BYTES, local_addr=local
            )
        return self._pair

    async def _ask(
        self, method: str, path: str, body: object, headers: Headers, seconds: float
    ) -> Answer:
        wire = request(method, path, {**self._headers, **headers}, body)
        began = time.perf_counter()
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._open()
                writer.write(wire)
                status, found, content = await read_answer(reader, method)
        except BaseException:
            self.close()
            raise
        if dict(found).get("connection", "").lower() == "close":
            self.close()
        return Answer(status, found, content, time.perf_counter() - began)


def request(method: str, path: str, headers: Headers, body: object = None) -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1"]
    if not any(name.lower() == "host" for name in headers):
        lines.append("host: tenantry.test")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    content = b""
    if body is not None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines.append("content-type: application/json")
    if body is not None or method in {"POST", "PUT", "PATCH"}:
        lines.append(f"content-length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + content


async def read_answer(
    reader: asyncio.StreamReader, method: str = "GET"
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return the status, the headers and the body of the next answer.

    Raises:
        CutShort: It is not whole.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        headers = [(k.lower(), v.strip()) for k, _, v in (one.partition(":") for one in lines)]
        said = dict(headers)
        if method == "HEAD" or status in {204, 304}:
            return status, headers, b""
        if said.get("transfer-encoding") == "chunked":
            return status, headers, await _read_chunks(reader)
        length = said.get("content-length")
        body = await (reader.read() if length is None else reader.readexactly(int(length)))
    except asyncio.IncompleteReadError as error:
        raise CutShort(f"{len(error.partial)} bytes and the end") from error
    return status, headers, body


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


async def each(
    items: Iterable[Given], work: Callable[[Given], Awaitable[Made]], *, at_once: int
) -> list[Made]:
    """Return what *work* makes of every item, *at_once* of them at a time."""
    given: Sequence[Given] = list(items)
    made: dict[int, Made] = {}
    left = iter(range(len(given)))

    async def run() -> None:
        for number in left:
            made[number] = await work(given[number])

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(given))):
            group.create_task(run())
    return [made[number] for number in range(len(given))]


async def login(line: Line, tenant: Tenant, email: str, password: str, **headers: str) -> Answer:
    """Return the answer to a login at *tenant*."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"email": email, "password": password}
    return await line.post(LOGIN, body, headers=key_of(tenant) | named)


async def raw(port: int, wire: bytes, *, seconds: float = 5.0, address: str = "") -> bytes:
    """Send bytes, and return all that comes until the connection ends or *seconds* are over."""
    local = (address, 0) if address else None
    reader, writer = await asyncio.open_connection(LOOPBACK, port, local_addr=local)
    got = b""
    try:
        writer.write(wire)
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                while chunk := await reader.read(65_536):
                    got += chunk
    finally:
        writer.transport.abort()
    return got


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
