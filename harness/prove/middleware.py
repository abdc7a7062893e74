"""What is put around the application of a planted process, to make it break a promise."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


@dataclass
class Exchange:
    """A request, and its answer when there is one.

    Attributes:
        headers: Of the request, in lower case; what is changed here is what the service sees.
        status: Of the answer; 0 while there is none.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answer_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    answer: bytes = b""

    @property
    def credentials(self) -> tuple[str, ...]:
        """The values of the headers that hold credentials."""
        return tuple(
            self.headers.get(name, "") for name in ("authorization", "x-api-key", "x-mcp-token")
        )

    def respond(self, status: int, answer: bytes) -> None:
        """Answer with a JSON text."""
        self.status, self.answer = status, answer
        self.answer_headers = [(b"content-type", b"application/json")]


Step = Callable[[Exchange], Awaitable[None]]


async def _nothing(_exchange: Exchange) -> None:
    pass


def around(app: App, *, before: Step = _nothing, after: Step = _nothing) -> App:
    """Return *app* with a step before each request, and one after each answer.

    A step before that sets a status answers by itself. Answers that go on are left alone.
    """

    async def faulty(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith("/events"):
            await app(scope, receive, send)
            return
        exchange = Exchange(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]},
            await _whole_body(receive),
        )
        await before(exchange)
        if not exchange.status:
            await _pass_on(app, scope, receive, exchange)
        await after(exchange)
        headers = [(k, v) for k, v in exchange.answer_headers if k != b"content-length"]
        headers.append((b"content-length", str(len(exchange.answer)).encode()))
        await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
        await send({"type": "http.response.body", "body": exchange.answer})

    return faulty


async def _pass_on(app: App, scope: dict[str, Any], receive: Receive, exchange: Exchange) -> None:
    body = [{"type": "http.request", "body": exchange.body, "more_body": False}]

    async def replay() -> dict[str, Any]:
        return body.pop() if body else await receive()

    async def collect(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            exchange.answer_headers = list(message["headers"])
        else:
            exchange.answer += message.get("body", b"")

    headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in exchange.headers.items()]
    await app({**scope, "headers": headers}, replay, collect)


async def _whole_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body
