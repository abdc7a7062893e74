"""Responses to clients of HTTP/1.0, and to those that wait for the status 100."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tenantry.api.envelope import CLOSE


async def send_unchunked(
    cycle: RequestResponseCycle, transport: asyncio.Transport, message: Any
) -> None:
    """Send to a client of HTTP/1.0, which reads no chunks: the body ends with the connection.

    Until the body is complete, the end of the connection is a reset, whatever ends it: a client or
    a proxy would take a connection that is only closed for the end of the body.

    Source: RFC 9112, section 7.1.
    """
    cycle.chunked_encoding = False
    if cycle.response_started:
        cycle.expected_content_length = len(message.get("body", b""))
    if not transport.is_closing():  # or its descriptor may be that of another connection
        has_more = not cycle.response_started or message.get("more_body", False)
        reset_at_end(transport, is_on=has_more)
    await RequestResponseCycle.send(cycle, message)


def reset_at_end(transport: asyncio.Transport, *, is_on: bool = True) -> None:
    """Let the end of a connection be a reset, which discards what was not sent, or no longer."""
    connection = transport.get_extra_info("socket")
    if connection is None:  # not every transport has one
        return
    # A copy of the descriptor, because `socket` closes its own.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as copied:
        copied.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", is_on, 0))


async def send_expected(
    cycle: RequestResponseCycle, linger: Callable[[], None], message: Any
) -> None:
    """Send to a client that waits for 100; after another status, the connection ends.

    The client may send its body all the same, or the next request, and nothing says which one
    follows (RFC 9110, section 10.1.1). *linger* is called if the connection is to end.
    """
    ends = not cycle.response_started and cycle.waiting_for_100_continue and cycle.more_body
    if ends:
        message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
    await RequestResponseCycle.send(cycle, message)
    if ends:
        linger()
        cycle.keep_alive = True  # else uvicorn closes at once, and a reset loses the response
