"""The HTTP/1.1 connection: what is sent, and in how many pieces."""

import asyncio
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from tenantry.api.protocol import BoundedProtocol

REQUEST = b"GET / HTTP/1.1\r\nhost: example.com\r\n\r\n"
LENGTH = (b"content-length", b"5")


class Recorded(asyncio.Transport):
    """A transport that keeps what it is given to send, each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.sent_in_time = 0

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        self.sent_in_time += not self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing is read from it."""

    def resume_reading(self) -> None:
        """Nothing is read from it."""


async def start(send: Any, **more: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [LENGTH], **more})


async def answered(app: Any, request: bytes = REQUEST) -> Recorded:
    """Return what was sent when *app* was asked."""
    config = Config(app, http=BoundedProtocol, loop="none", lifespan="off", log_config=None)
    state = ServerState()
    protocol = BoundedProtocol(config, state, {})
    transport = Recorded()
    protocol.connection_made(transport)
    protocol.data_received(request)
    await asyncio.gather(*state.tasks)
    await asyncio.sleep(0)
    protocol.connection_lost(None)
    return transport


class TestAnswer:
    async def test_is_sent_in_one_piece(self):
        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await start(send)
            await send({"type": "http.response.body", "body": b"whole"})

        transport = await answered(app)

        (sent,) = transport.writes
        assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert sent.endswith(b"\r\n\r\nwhole")

    async def test_has_a_head_that_does_not_wait_for_the_body(self):
        seen: list[int] = []

        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await start(send)
            await asyncio.sleep(0)
            seen.append(len(transport_of(send).writes))
            await send({"type": "http.response.body", "body": b"slow", "more_body": True})
            await asyncio.sleep(0)
            seen.append(len(transport_of(send).writes))
            await send({"type": "http.response.body", "body": b"!"})

        transport = await answered(app)

        assert seen == [1, 2]
        assert b"".join(transport.writes).endswith(b"\r\n\r\nslow!")

    async def test_is_sent_as_far_as_it_came_before_the_connection_is_closed(self):
        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await start(send)
            raise RuntimeError("the rest cannot be made")

        transport = await answered(app)

        assert transport.closed
        assert transport.sent_in_time == 1

    async def test_may_be_a_head_alone(self):
        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await start(send)
            await send({"type": "http.response.body", "body": b""})

        transport = await answered(app, REQUEST.replace(b"GET", b"HEAD"))

        (sent,) = transport.writes
        assert sent.endswith(b"content-length: 5\r\n\r\n")

    async def test_is_not_sent_to_who_has_gone(self):
        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await start(send)
            transport_of(send).abort()
            await asyncio.sleep(0)

        transport = await answered(app)

        assert transport.writes == []


def transport_of(send: Any) -> Recorded:
    """Return the transport behind uvicorn's *send*."""
    raw: Recorded = send.__self__.transport._raw  # noqa: SLF001
    return raw
