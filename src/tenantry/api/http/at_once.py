"""Receive a whole body and send a whole response in one step, as nearly every request needs it."""

from collections.abc import Callable, Sequence

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle


def sent_at_once(
    send: Callable[..., object], status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> bool:
    """Send a whole response in one write, if *send* is uvicorn's own; else return False.

    uvicorn writes the head and the body separately, in two system calls and two packets, and
    iterates over the headers three times: a tenth of the time of a short request. Rare cases are
    left to uvicorn: a client that has disconnected, does not read, or closes the connection.
    The *headers* are trusted, have names in lower case, and include the content length.
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
    lines = b"\r\n".join(map(b": ".join, (*cycle.default_headers, *headers)))
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    cycle.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINE[status], lines, body))
    cycle.on_response()
    return True


def received_at_once(receive: Callable[..., object]) -> bytes | None:
    """Return the whole body of a request if it has arrived and *receive* is uvicorn's own.

    Nearly every body arrives together with the head. Then no deadline is needed.
    """
    cycle = getattr(receive, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle) or cycle.more_body or cycle.disconnected:
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    cycle.message_event.clear()
    cycle.flow.resume_reading()
    return body
