"""How a request is framed: its version, its host, and where its body ends."""

import re
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from tenantry.api.envelope import CLOSE, Headers, HttpError

# Source: RFC 3986, section 3.2.2, and a port; the name itself is checked where it matters.
_HOST_FORM = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")


class BadFraming(HttpError):
    """The request is not valid HTTP/1.1."""

    headers: Headers = [CLOSE]  # noqa: RUF012 - a constant


class BadHost(HttpError):
    """A request must have exactly one valid Host header."""

    headers: Headers = [CLOSE]  # noqa: RUF012 - a constant


class CodingNotSupported(HttpError):
    """The only transfer coding that is supported is `chunked`."""

    status = HTTPStatus.NOT_IMPLEMENTED
    headers: Headers = [CLOSE]  # noqa: RUF012 - a constant


class VersionNotSupported(HttpError):
    """The service speaks HTTP/1.1 and HTTP/1.0 alone."""

    status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    headers: Headers = [CLOSE]  # noqa: RUF012 - a constant


class Framing(msgspec.Struct, frozen=True):
    """How one request is framed.

    Attributes:
        body_bytes: As ``Content-Length`` says; 0 without one.
        is_chunked: Whether the body is sent in chunks instead.
        refusal: Why it cannot be answered, if it cannot.
    """

    body_bytes: int
    is_chunked: bool
    refusal: HttpError | None

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]], version: str) -> "Framing":
        """Return the framing that *headers*, which the parser has accepted, describe.

        Args:
            headers: With names in lower case.
            version: Of HTTP: ``1.1``, say.
        """
        hosts: list[bytes] = []
        codings: list[bytes] = []
        body_bytes = 0
        for name, value in headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"content-length":
                body_bytes = int(value)
            elif name == b"transfer-encoding":
                codings.append(value.strip().lower())
        return cls(body_bytes, bool(codings), _refusal(version, hosts, codings))


def _refusal(version: str, hosts: list[bytes], codings: list[bytes]) -> HttpError | None:
    if version not in {"1.1", "1.0"}:
        return VersionNotSupported()
    # HTTP/1.0 knows neither hosts nor chunks (RFC 9112, sections 3.2 and 6.1).
    if version == "1.0" and codings:
        return BadFraming()
    # What another coding decodes to is not known here (RFC 9112, section 6.1).
    if codings and codings != [b"chunked"]:
        return CodingNotSupported()
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return BadHost()
    return None if all(map(_HOST_FORM.fullmatch, hosts)) else BadHost()
