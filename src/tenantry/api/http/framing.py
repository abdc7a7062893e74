"""The framing of messages: which headers define it, and whole messages in one step."""

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import SimpleNamespace

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from tenantry.api.error_responses import HttpError

# Source: RFC 3986, section 3.2.2, and a port. This checks only the characters.
_HOST_FORM = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")

# Each escape in it costs a call in Python.
TARGET_BYTES_MAX = 8_192

# Those that are read, besides Host and the credentials, which are checked where they are read.
_SINGLE = frozenset({b"content-type", b"expect", b"last-event-id", b"origin", b"sec-fetch-site"})

Sent = Mapping[bytes, bytes]
"""The headers of a request by their names in lower case, as `by_name` returns them."""


class TargetTooLong(HttpError):
    """The URL is too long."""

    status = HTTPStatus.REQUEST_URI_TOO_LONG


class BadFraming(HttpError):
    """The request is not valid HTTP/1.1."""


class BadHost(HttpError):
    """A request must have exactly one valid Host header."""


class RepeatedHeader(HttpError):
    """A header that has one value was sent twice."""


class CodingNotSupported(HttpError):
    """The only supported transfer coding is `chunked`."""

    status = HTTPStatus.NOT_IMPLEMENTED


class VersionNotSupported(HttpError):
    """The service supports only HTTP/1.1 and HTTP/1.0."""

    status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED


def by_name(headers: Sequence[tuple[bytes, bytes]]) -> Sent:
    """Return the headers of a request by name; the values of a repeated one are joined by commas.

    Source: RFC 9110, section 5.3
    """
    sent = dict(headers)
    if len(sent) == len(headers):  # nearly always, and then each is found without a loop
        return sent
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: b", ".join(several) for name, several in values.items()}


def check_single(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Check that no header that has one value is repeated (RFC 9110, section 5.3).

    Raises:
        RepeatedHeader: One is.
    """
    single = [name for name, _ in headers if name in _SINGLE]
    if len(set(single)) < len(single):
        raise RepeatedHeader


def body_length(sent: Sent, version: str, target_bytes: int, *, is_connect: bool) -> int | None:
    """Return the ``Content-Length`` of a request, 0 without one; None if its body is chunked.

    Args:
        sent: The headers, accepted by the parser.
        version: The HTTP version, such as ``1.1``.
        target_bytes: The length of the path with the query.
        is_connect: Whether its method is CONNECT, which has no body in chunks.

    Raises:
        HttpError: The framing is invalid.
    """
    coding, host = sent.get(b"transfer-encoding"), sent.get(b"host")
    if is_connect and coding is not None:
        raise BadFraming
    if target_bytes > TARGET_BYTES_MAX:
        raise TargetTooLong
    # A later minor version is read as 1.1 (RFC 9110, section 2.5).
    if not version.startswith("1."):
        raise VersionNotSupported
    if coding is not None:
        # HTTP/1.0 has no transfer codings (RFC 9112, section 6.1).
        if version == "1.0":
            raise BadFraming
        # The length of a body with any other coding is unknown (RFC 9112, section 6.1).
        if coding.strip().lower() != b"chunked":
            raise CodingNotSupported
    # HTTP/1.0 does not require it (RFC 9112, section 3.2). Several ones have a blank between them.
    if not (version == "1.0" if host is None else _HOST_FORM.fullmatch(host)):
        raise BadHost
    return int(sent.get(b"content-length", 0)) if coding is None else None


def body_parser(
    length: int | None, on_body: Callable[[bytes], None], on_end: Callable[[], None]
) -> httptools.HttpRequestParser:
    """Return a parser of a body alone, which calls *on_body* with its parts and *on_end* after it.

    It reads the body of a request with an ``Upgrade``, where its own parser stops after the head.

    Args:
        length: As `body_length` returned it.
        on_body: Takes a part of the content.
        on_end: Called once.
    """
    callbacks = SimpleNamespace(on_body=on_body, on_message_complete=on_end)
    parser = httptools.HttpRequestParser(callbacks)
    form = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    parser.feed_data(b"POST / HTTP/1.1\r\nhost: a\r\n%b\r\n\r\n" % form)
    return parser


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
