"""An HTTP client that sends exactly the given bytes."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette

ANSWER_SECONDS_MAX = 30.0
CLIENT = ("203.0.113.9", 40_000)

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """The response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    said: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "said", dict(self.headers))

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def raw(self) -> bytes:
        """Everything that the caller can read."""
        return b"\n".join([*(f"{n}: {v}".encode("latin-1") for n, v in self.headers), self.body])


async def ask(
    app: Starlette,
    method: str,
    path: str,
    *,
    query: bytes = b"",
    headers: Headers = (),
    body: bytes | Iterable[bytes] = b"",
) -> Answer:
    """Send one request; a *body* of several parts is chunked, without a content-length."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    messages = [
        {"type": "http.request", "body": chunk, "more_body": at + 1 < len(chunks)}
        for at, chunk in enumerate(chunks)
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()  # the client stays on the line
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        await app(_scope(method, path, query, headers), receive, send)
    start, *rest = sent
    return Answer(
        status=start["status"],
        headers=[(n.decode("latin-1"), v.decode("latin-1")) for n, v in start["headers"]],
        body=b"".join(message.get("body", b"") for message in rest),
    )


def _scope(method: str, path: str, query: bytes, headers: Headers) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(errors="surrogatepass"),
        "query_string": query,
        "root_path": "",
        "headers": [
            (b"host", b"tenantry.test"),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in headers),
        ],
        "client": CLIENT,
        "server": ("tenantry.test", 80),
    }
