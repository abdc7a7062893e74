"""Check the framing of a request: its HTTP version, its Host, and the length of its body."""

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from types import SimpleNamespace

import httptools

from tenantry.api.error_responses import HttpError

# Source: RFC 3986, section 3.2.2, and a port. This checks only the characters.
_HOST_FORM = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")


# The headers that say where the request ends, and whether its client waits.
FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})
# Each escape in it costs a call in Python.
TARGET_BYTES_MAX = 8_192


class TargetTooLong(HttpError):
    """The URL is too long."""

    status = HTTPStatus.REQUEST_URI_TOO_LONG


class BadFraming(HttpError):
    """The request is not valid HTTP/1.1."""


class BadHost(HttpError):
    """A request must have exactly one valid Host header."""


class CodingNotSupported(HttpError):
    """The only supported transfer coding is `chunked`."""

    status = HTTPStatus.NOT_IMPLEMENTED


class VersionNotSupported(HttpError):
    """The service supports only HTTP/1.1 and HTTP/1.0."""

    status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED


def body_length(
    headers: Iterable[tuple[bytes, bytes]], version: str, target_bytes: int, *, is_connect: bool
) -> int | None:
    """Return the ``Content-Length`` of a request, 0 without one; None if its body is chunked.

    Args:
        headers: At least those of `FRAMING`, accepted by the parser, with names in lower case.
        version: The HTTP version, such as ``1.1``.
        target_bytes: The length of the path with the query.
        is_connect: Whether its method is CONNECT, which has no body in chunks.

    Raises:
        HttpError: The framing is invalid.
    """
    hosts: list[bytes] = []
    codings: list[bytes] = []
    length = 0
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
    if is_connect and codings:
        raise BadFraming
    if target_bytes > TARGET_BYTES_MAX:
        raise TargetTooLong
    _check(version, hosts, codings)
    return None if codings else length


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


def _check(version: str, hosts: list[bytes], codings: list[bytes]) -> None:
    # A later minor version is read as 1.1 (RFC 9110, section 2.5).
    if not version.startswith("1."):
        raise VersionNotSupported
    # HTTP/1.0 has no transfer codings and does not require Host (RFC 9112, sections 3.2, 6.1).
    if version == "1.0" and codings:
        raise BadFraming
    # The length of a body with any other coding is unknown (RFC 9112, section 6.1).
    if codings and codings != [b"chunked"]:
        raise CodingNotSupported
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        raise BadHost
    if not all(map(_HOST_FORM.fullmatch, hosts)):
        raise BadHost
