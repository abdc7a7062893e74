"""The HTTP/1.1 connection: what is sent, and in how many pieces."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from tenantry.api.http.connections import ConnectionLimits, Connections
from tenantry.api.http.framing import sent_at_once
from tenantry.api.http.protocol import BoundedProtocol, protocol_for
from tenantry.api.streaming import ResponseAborted
from tenantry.cli.serving.server import is_logged
from tenantry.kit.metrics import Metrics

REQUEST = b"GET / HTTP/1.1\r\nhost: example.com\r\n\r\n"
HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"5")]

App = Callable[..., Any]


class Recorded(asyncio.Transport):
    """A transport that records each write separately."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.writes))

    def pause_reading(self) -> None:
        """Nothing is read from it."""

    def resume_reading(self) -> None:
        """Nothing is read from it."""


class Connection:
    """A client's connection to an application."""

    def __init__(self, app: App) -> None:
        connections = Connections(ConnectionLimits(), Metrics())
        make: Any = protocol_for(connections)
        config = Config(app, http=make, loop="none", lifespan="off", log_config=None)
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"today")]
        self.protocol: BoundedProtocol = make(config, self.state, {})
        self.transport = Recorded()
        self.protocol.connection_made(self.transport)

    async def ask(self, requests: bytes = REQUEST) -> list[bytes]:
        """Send *requests*; return what was written since."""
        self.transport.writes.clear()
        self.protocol.data_received(requests)
        while self.state.tasks:
            await asyncio.gather(*self.state.tasks)
        return self.transport.writes


async def in_two(send: Any, status: int = 200) -> None:
    """Answer as an ASGI application does."""
    await send({"type": "http.response.start", "status": status, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"whole"})


async def at_once(_scope: Any, _receive: Any, send: Any, status: int = 200) -> None:
    """Answer in one write, or in two if that is not possible."""
    if not sent_at_once(send, status, HEADERS, b"whole"):
        await in_two(send, status)


class TestSentAtOnce:
    @pytest.mark.parametrize("status", [200, 201, 401, 500])
    async def test_is_what_uvicorn_sends(self, status: int):
        """The same bytes, in one write."""

        async def together(scope: Any, receive: Any, send: Any) -> None:
            await at_once(scope, receive, send, status)

        async def separately(_scope: Any, _receive: Any, send: Any) -> None:
            await in_two(send, status)

        (whole,) = await Connection(together).ask()

        assert whole == b"".join(await Connection(separately).ask())

    async def test_leaves_the_connection_for_the_next_request(self):
        """Both a later request and a pipelined one are answered."""
        connection = Connection(at_once)

        (first,) = await connection.ask()
        (second,) = await connection.ask()
        third, fourth = await connection.ask(REQUEST + REQUEST)

        assert first == second == third == fourth
        assert connection.state.total_requests == 4
        assert not connection.transport.closed

    @pytest.mark.parametrize(
        "request_",
        [
            REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
            REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        ],
    )
    async def test_leaves_it_to_uvicorn_to_close_the_connection(self, request_: bytes):
        connection = Connection(at_once)

        sent = b"".join(await connection.ask(request_))

        assert b"\r\nconnection: close\r\n" in sent
        assert sent.endswith(b"\r\n\r\nwhole")
        assert connection.transport.closed

    async def test_waits_for_a_client_that_does_not_read(self):
        connection = Connection(at_once)
        connection.protocol.pause_writing()

        connection.protocol.data_received(REQUEST)
        await asyncio.sleep(0.01)
        assert connection.transport.writes == []

        connection.protocol.resume_writing()
        await asyncio.gather(*connection.state.tasks)
        assert b"".join(connection.transport.writes).endswith(b"\r\n\r\nwhole")

    async def test_sends_nothing_to_a_client_that_disconnected(self):
        async def app(scope: Any, receive: Any, send: Any) -> None:
            connection.protocol.connection_lost(None)
            await at_once(scope, receive, send)

        connection = Connection(app)

        assert await connection.ask() == []

    async def test_does_not_bypass_middleware_that_wraps_send(self):
        """The CORS middleware wraps `send` to add its headers."""
        passed = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def wrapped(message: Any) -> None:
                passed.append(message["type"])
                await send(message)

            await at_once(scope, receive, wrapped)

        await Connection(app).ask()

        assert passed == ["http.response.start", "http.response.body"]


class TestBrokenOff:
    def test_is_no_error_of_the_server(self):
        """The reason is logged elsewhere; stopping a process must not log errors."""
        record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "", None, None)
        for error, is_told in ((ResponseAborted(), False), (ValueError(), True)):
            record.exc_info = (type(error), error, None)

            assert is_logged(record) is is_told


class TestUpgrade:
    async def test_costs_no_pass_over_the_headers_for_each_part_of_the_body(self):
        """A client could send a byte at a time, each of which cost more than a millisecond."""
        commas = b"," * 20_000
        times = {}
        for name in (b"upgrade", b"x-upgrade"):
            connection = Connection(at_once)
            head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 501\r\nconnection: upgrade"
            connection.protocol.data_received(b"%b%b\r\n%b: x\r\n\r\n" % (head, commas, name))
            began = time.process_time()
            for _ in range(500):
                connection.protocol.data_received(b"x")
            times[name] = time.process_time() - began
            await connection.ask(b"x")

        assert times[b"upgrade"] < 5 * times[b"x-upgrade"] + 0.05


class TestStall:
    async def test_is_that_of_the_present_response(self):
        """A part of an earlier one was unread for a moment."""
        connection = Connection(at_once)
        now = time.monotonic()
        await connection.ask()
        connection.protocol.check(now + 1)
        connection.transport.writes.clear()
        connection.protocol.check(now + 2)
        await connection.ask()

        connection.protocol.check(now + 33)

        assert not connection.transport.closed
