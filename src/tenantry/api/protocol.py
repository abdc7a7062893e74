"""The HTTP/1.1 connection: uvicorn's, with the three bounds that it lacks.

uvicorn waits for ever for the head of a request, and for a client that does not read its
answer, and httptools takes a head of any size; so a few hundred silent, deaf or chatty
connections would be enough to exhaust a process.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

HEAD_SECONDS_MAX = 15.0
# The request line and the headers; the headers alone are bounded again, in the envelope.
HEAD_BYTES_MAX = 32_768
# A client that reads slowly is served; one that has read nothing for so long is not there.
DEAF_SECONDS_MAX = 30.0

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\n"
    b"connection: close\r\n"
    b"\r\n"
)


def sent_at_once(
    send: Callable[..., object], status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> bool:
    """Send a whole answer in one piece, if *send* is uvicorn's own; else return False.

    uvicorn writes the head and the body apart, which are two system calls and two packets, and
    looks at each header three times: a tenth of the time of a short request. What is rare is
    left to it: a client that has gone, does not read, or wants the connection closed.

    Args:
        send: What the application was given to send with.
        status: Of the answer.
        headers: In lower case, with the length of the body, and of our own making.
        body: All of it.
    """
    cycle = getattr(send, "__self__", None)
    if (
        not isinstance(cycle, RequestResponseCycle)
        or cycle.disconnected
        or cycle.flow.write_paused
        or cycle.waiting_for_100_continue
        or not cycle.keep_alive
    ):
        return False
    parts = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        parts += (name, b": ", value, b"\r\n")
    parts += (b"\r\n", body)
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.transport.write(b"".join(parts))
    cycle.on_response()
    return True


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose next request must begin, and have its head, in time and in measure.

    And whoever asks must read the answer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._deaf_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._disarm()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; nearly every head comes whole, and costs no timer."""
        super().data_received(data)
        if not self._is_in_head:
            self._disarm()
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._head_timer is None:
            self._arm()

    def on_message_begin(self) -> None:
        """Begin to count the head."""
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._is_in_head = False
        self._head_bytes = 0
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Begin to watch whether the client reads."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Watch no more: it has."""
        self._stop_watching()
        super().resume_writing()

    def _watch(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._deaf_timer = self.loop.call_later(DEAF_SECONDS_MAX, self._look)

    def _look(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread_bytes:
            self._watch()
        else:
            self.transport.abort()

    def _stop_watching(self) -> None:
        if self._deaf_timer is not None:
            self._deaf_timer.cancel()
            self._deaf_timer = None

    def _arm(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self._give_up)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()
