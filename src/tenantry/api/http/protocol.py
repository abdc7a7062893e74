"""The HTTP/1.1 connection: uvicorn's protocol with deadlines and bounds.

uvicorn reads everything that a client sends into memory, has no deadline for a body or for a
client that does not read, and restarts its keep-alive timer with every byte. Here a connection is
always in one `State`, and each state that waits for the client has a deadline.

Only this module, `framing` and `rare_clients` use internals of uvicorn: `HttpToolsProtocol`,
`RequestResponseCycle` and `FlowControl`. So uvicorn has an upper bound in `pyproject.toml`, and
`tests/unit/test_uvicorn.py` fails if these internals have changed.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tenantry.api.error_responses import HeadersTooLarge, HttpError
from tenantry.api.http.connection_states import (
    ANSWERING,
    BODY,
    CLOSING,
    DRAINING,
    HEAD,
    IDLE,
    LINGERING,
    NEW,
    Stall,
    State,
)
from tenantry.api.http.connections import Connections
from tenantry.api.http.framing import BadFraming, body_length, body_parser, by_name, check_single
from tenantry.api.http.message_ends import CONTENT_BYTES_MAX, ChunkedBody, EmptyLine
from tenantry.api.http.part_writer import PartWriter
from tenantry.api.http.rare_clients import reset_at_end, send_expected, send_unchunked
from tenantry.api.http.refusals import refusal_bytes
from tenantry.kit.clock import monotonic_seconds

# The request line and the headers. `api.requests` has a lower limit for the headers.
HEAD_BYTES_MAX = 32_768
EXPECTED = b"100-continue"
HEADERS_MAX = 200  # each costs a call in Python, and clients send thirty
# When the server ends: how long a connection without a request may take to send one.
LAST_REQUEST_SECONDS = 1.0


def protocol_for(connections: Connections) -> Callable[..., asyncio.Protocol]:
    """Return the protocol factory of one server, for ``uvicorn.Config(http=...)``."""
    return partial(BoundedProtocol, connections)


class _Flow(FlowControl):
    """uvicorn's flow control, which does not resume reading while input is held back."""

    is_held = False

    def resume_reading(self) -> None:
        if self.read_paused and not self.is_held:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """A connection that reads one request at a time, within limits of time and size.

    Input after a request is held back until the response is sent: first here, then in the socket.
    The *connections* of the server check this one once a second.
    """

    flow: _Flow

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connections = connections
        self._state: State = NEW
        self._since = 0.0
        self._head_bytes = 0
        self._end_of_head = EmptyLine()
        # The remaining bytes of a body that is not chunked.
        self._left = 0
        self._chunked: ChunkedBody | None = None
        # Reads the body after an offer to upgrade; else None.
        self._body_parser: httptools.HttpRequestParser | None = None
        self._held = b""
        self._held_from = 0
        self._stall = Stall()
        self._is_last = False
        self._lingers = False
        # The parser rejects 1.2; `body_length` reads it as 1.1, and rejects other major versions.
        self.parser.set_dangerous_leniencies(lenient_version=True)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._writer = PartWriter(transport, self._limit_unread)
        self._enter(NEW)
        refusal = self._connections.admit(self, self.client[0] if self.client else "")
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from those of the server."""
        self._connections.leave(self)
        self._held = b""
        self._body_parser = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a request; hold back input that arrives before its response."""
        if self._held and self._holds_input:
            self._hold(self._held[self._held_from :] + data, 0)
        else:
            self._read(data, 0)

    def check(self, now: float) -> None:
        """Close the connection if a deadline has passed."""
        limits = self._connections.limits
        unread = self.unread_bytes
        self._stall = self._stall if unread else Stall()
        # Nothing more is written in these states. uvloop and the kernel may hold a whole response.
        is_reading = self._state in (IDLE, CLOSING) and unread > 0
        is_waiting = is_reading or bool(self.flow.write_paused)
        is_stalled = is_waiting and self._stall.seconds(unread, now) >= limits.stall_seconds
        if is_stalled or (is_reading and now - self._since >= limits.read_seconds):
            self.abort()
        if is_stalled or is_reading:
            return
        seconds = {
            NEW: limits.head_seconds,
            IDLE: limits.idle_seconds,
            HEAD: limits.head_seconds,
            DRAINING: limits.drain_seconds,
            LINGERING: limits.linger_seconds,
            CLOSING: limits.stall_seconds,
        }.get(self._state)
        if seconds is None or now - self._since < seconds:
            return
        if self._state is CLOSING:
            self.abort()
        else:
            self._close()

    def shutdown(self) -> None:
        """End after the answer to the current request, or to the first one.

        A client that has just connected has sent its request, or is about to.
        """
        if self._state in (NEW, HEAD):
            self._is_last = True
            asyncio.get_running_loop().call_later(LAST_REQUEST_SECONDS, self._end_if_new)
        else:
            super().shutdown()

    def _end_if_new(self) -> None:
        if self._state in (NEW, HEAD):
            self._close()

    # Called by the parser

    def on_message_begin(self) -> None:
        """Start to read a head."""
        self._enter(HEAD)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; ignore trailers of a chunked body (RFC 9110, section 6.5.1)."""
        if self._state is HEAD:
            headers = self.headers
            if len(headers) >= HEADERS_MAX:
                raise HeadersTooLarge
            headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the framing of the request, and start to handle it, as uvicorn does."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        is_connect = method == b"CONNECT"
        sent = by_name(self.headers)
        if len(sent) < len(self.headers):
            check_single(self.headers)
        length = body_length(sent, version, len(self.url), is_connect=is_connect)
        self._head_bytes = 0
        self._left = length or 0
        self._chunked = ChunkedBody() if length is None else None
        # After an upgrade, the parser passes the input on as another protocol. An offer to upgrade
        # is ignored, so the input is the body (RFC 9110, section 7.8).
        if length != 0 and self.parser.should_upgrade():
            self._body_parser = body_parser(length, self.on_body, self._end_body)
        self._state = BODY
        target, scope = httptools.parse_url(self.url), self.scope
        path = target.path.decode("ascii")
        scope["method"], scope["http_version"] = method.decode("ascii"), version
        scope["path"], scope["raw_path"] = unquote(path) if "%" in path else path, target.path
        scope["query_string"] = target.query or b""
        is_old = version == "1.0"
        self.cycle = cycle = RequestResponseCycle(
            scope,
            cast("asyncio.Transport", self._writer),
            self.flow,
            self.logger,
            self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            # Source: RFC 9110, section 10.1.1
            expect_100_continue=not is_old and sent.get(b"expect", b"").lower() == EXPECTED,
            keep_alive=not (is_old or self._is_last) and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if is_old:
            cycle.send = partial(send_unchunked, cycle, self.transport)  # type: ignore[method-assign]
        elif cycle.waiting_for_100_continue:
            cycle.send = partial(send_expected, cycle, self._linger_later)  # type: ignore[method-assign]
        self._start_asgi_task(cycle, self.app)

    def on_body(self, body: bytes) -> None:
        """Store a part of the body; ignore it after the response."""
        self._left -= len(body)
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End the request; after an offer to upgrade, its body follows."""
        if self._body_parser is not None:
            return
        self._left = 0
        if self.cycle.response_complete:
            self._enter(IDLE)
            return
        self._state = ANSWERING
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def _end_body(self) -> None:
        self._body_parser = None
        self.on_message_complete()

    # Called when the response is sent

    def on_response_complete(self) -> None:
        """Read the next request, or the rest of the body."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._enter(CLOSING)
            return
        if self._state is ANSWERING:
            self._enter(IDLE)
        elif self._state is BODY:
            self._enter(DRAINING)
            if self._left > CONTENT_BYTES_MAX or self._lingers:
                self._linger()
        if not self._holds_input:
            self._go_on()

    @property
    def _holds_input(self) -> bool:
        """Whether the next request waits: for the response, or until the client has read it."""
        return self._state is ANSWERING or (self._state is IDLE and bool(self.flow.write_paused))

    def _go_on(self) -> None:
        self.flow.is_held = False
        self.flow.resume_reading()
        if self._held:
            data, self._held = self._held, b""
            self._read(data, self._held_from)

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read."""
        super().pause_writing()
        self._limit_unread()

    def resume_writing(self) -> None:
        """Reset the deadline of a client that did not read."""
        self._connections.forget_unread(self)
        self._stall = Stall()
        super().resume_writing()
        if self._state is IDLE:
            self._go_on()

    @property
    def unread_bytes(self) -> int:
        """The bytes that are written, and that the client has not read."""
        return int(self.transport.get_write_buffer_size())

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the client to send the rest of a request, or the next one."""
        return self._state <= BODY and not self.unread_bytes

    def _limit_unread(self) -> None:
        if self.flow.write_paused:
            self._connections.limit_unread(self)

    def abort(self) -> None:
        """Close the connection at once, and discard what the client has not read."""
        reset_at_end(self.transport)
        self.transport.abort()

    def _enter(self, state: State) -> None:
        self._state = state
        self._since = monotonic_seconds()

    def _read(self, data: bytes, at: int) -> None:
        """Parse *data* from *at* up to the end of a request; hold back the rest."""
        size = len(data)
        while at < size and self._state <= BODY:
            if self._state is IDLE and self.flow.write_paused:
                break
            try:
                end = self._end_of_part(data, at)
                (self._body_parser or self.parser).feed_data(data[at:end])
            except httptools.HttpParserUpgrade:
                pass
            except (httptools.HttpParserError, HttpError) as error:
                # The parser chains an error of a callback.
                cause = error if isinstance(error, HttpError) else error.__context__
                self._refuse(cause if isinstance(cause, HttpError) else BadFraming())
                return
            at = end
        if at < size and self._holds_input:
            self._hold(data, at)

    def _hold(self, data: bytes, at: int) -> None:
        self._held, self._held_from = data, at
        self.flow.is_held = True
        self.flow.pause_reading()

    def _end_of_part(self, data: bytes, at: int) -> int:
        """Return the end of the bytes to parse: no byte after the end of a request.

        Raises:
            HttpError: The head or the framing of the body is too large.
        """
        if self._state <= HEAD:
            end = self._end_of_head.end(data, at) or len(data)
            self._head_bytes += end - at
            if self._head_bytes > HEAD_BYTES_MAX:
                raise HeadersTooLarge
            return end
        if self._chunked is not None:
            return self._chunked.end(data, at)
        return min(len(data), at + self._left)

    def _refuse(self, refusal: HttpError) -> None:
        """Send the error, unless a response was started, and end the connection."""
        self._connections.count_refusal(type(refusal))
        cycle = cast("RequestResponseCycle | None", self.cycle)
        pending = None if cycle is None or cycle.response_complete else cycle
        # A request that was answered while its body is still read gets no second response.
        if self._state is not DRAINING and (pending is None or not pending.response_started):
            self.transport.write(refusal_bytes(refusal, self.server_state.default_headers))
        if pending is not None:
            pending.disconnected = True
            pending.message_event.set()
        self._linger()

    def _linger(self) -> None:
        """End the connection. With unread input, closing it would reset it and lose the error."""
        if self.transport.can_write_eof() and self._connections.may_linger(self):
            self.transport.write_eof()
            self._enter(LINGERING)
        else:
            self._close()

    def _linger_later(self) -> None:
        self._lingers = True

    def _close(self) -> None:
        self._enter(CLOSING)
        self.transport.close()
