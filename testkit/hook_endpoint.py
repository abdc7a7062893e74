"""An endpoint of webhooks on loopback, with answers that a test chooses."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_SECONDS_MAX = 60.0
CHUNK = b"x" * 65_536


@dataclass
class Endpoint:
    """An endpoint that stores what it receives.

    Attributes:
        answers: The next answers; then 200. A number is a status, a function writes one itself.
        received: The headers and the bodies, in order.
        sent_bytes: How much of a large body the client has taken.
    """

    url: str = ""
    answers: list[int | Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    sent_bytes: int = 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in list(self.received)]

    @property
    def events(self) -> list[str]:
        return [one["type"] for one in self.messages]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in list(self.received)]

    def wait_for(self, count: int) -> None:
        """Wait until so many messages were received."""
        ends = time.monotonic() + WAIT_SECONDS_MAX
        while len(self.received) < count:
            assert time.monotonic() < ends, self.received
            time.sleep(0.02)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer nothing until the test ends."""
        del handler
        self.released.wait(WAIT_SECONDS_MAX * 2)

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a byte of the headers at a time, so that no single read times out."""
        with suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
            while not self.released.wait(0.05):
                handler.wfile.write(b"x")

    def flood(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a body of a gigabyte."""
        handler.send_response(200)
        handler.send_header("content-length", str(2**30))
        handler.end_headers()
        with suppress(OSError):
            while self.sent_bytes < 2**30:
                self.sent_bytes += handler.connection.send(CHUNK)

    def endless_headers(self, handler: BaseHTTPRequestHandler) -> None:
        """Send headers of a gigabyte."""
        with suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while self.sent_bytes < 2**30:
                handler.wfile.write(b"x-y: " + CHUNK + b"\r\n")
                self.sent_bytes += len(CHUNK)


def redirect_to(url: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return an answer that redirects, with the method kept."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("location", url)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


@contextmanager
def endpoint(tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """Serve an endpoint during the block, over TLS if *tls* is given."""
    served = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            served.received.append(({k.lower(): v for k, v in self.headers.items()}, body))
            answer = served.answers.pop(0) if served.answers else 200
            if callable(answer):
                answer(self)
                return
            self.send_response(answer)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    served.url = (
        f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}/secret/path"
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        server.server_close()
