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


async def send_unchunked(cycle: RequestResponseCycle, message: Any) -> None:
    """Send to a client of HTTP/1.0, which reads no chunks: the body ends with the connection.

    Source: RFC 9112, section 7.1.
    """
    cycle.chunked_encoding = False
    if cycle.response_started:
        cycle.expected_content_length = len(message.get("body", b""))
    await RequestResponseCycle.send(cycle, message)


def close_unchunked(cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
    """Close the connection of a client of HTTP/1.0; reset it if the response is not complete.

    For such a client, and for a proxy, a connection that is only closed is the end of the body.
    """
    if cycle.response_complete:
        transport.close()
        return
    handle = transport.get_extra_info("socket").fileno()
    # A copy of the descriptor, because `socket` closes its own.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as copied:
        copied.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


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
