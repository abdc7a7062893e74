"""Check the framing of a request: its HTTP version, its Host, and the length of its body."""

import re
from collections.abc import Iterable
from http import HTTPStatus

from tenantry.api.error_responses import HttpError

# Source: RFC 3986, section 3.2.2, and a port. This checks only the characters.
_HOST_FORM = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")


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
    headers: Iterable[tuple[bytes, bytes]], version: str, target_bytes: int, *, is_upgrade: bool
) -> int | None:
    """Return the ``Content-Length`` of a request, 0 without one; None if its body is chunked.

    Args:
        headers: The headers, accepted by the parser, with names in lower case.
        version: The HTTP version, such as ``1.1``.
        target_bytes: The length of the path with the query.
        is_upgrade: Whether it asks for another protocol.

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
    if is_upgrade and codings:
        raise BadFraming
    if target_bytes > TARGET_BYTES_MAX:
        raise TargetTooLong
    _check(version, hosts, codings)
    return None if codings else length


def _check(version: str, hosts: list[bytes], codings: list[bytes]) -> None:
    if version not in {"1.1", "1.0"}:
        raise VersionNotSupported
    # HTTP/1.0 has no transfer codings and does not require Host (RFC 9112, sections 3.2, 6.1).
    if version == "1.0" and codings:
        raise BadFraming
    # The length of a body with any other coding is unknown (RFC 9112, section 6.1).
    if codings and codings != [b"chunked"]:
        raise CodingNotSupported
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadHost
    if not all(map(_HOST_FORM.fullmatch, hosts)):
        raise BadHost
