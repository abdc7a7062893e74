"""Read a request: its credential headers, its body, its members."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from tenantry.access.identify import Credentials
from tenantry.api.access_levels import API_KEY, AUTHORIZATION, MCP_TOKEN
from tenantry.api.endpoints import Endpoint, NoSuchPath, slug_of
from tenantry.api.envelope import (
    BodyTooLarge,
    BodyTooSlow,
    HeadersTooLarge,
    HttpError,
    UnsupportedMediaType,
)
from tenantry.api.protocol import received_at_once
from tenantry.api.streaming import Message, Receive
from tenantry.kit.errors import Invalid
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_MAX
from tenantry.kit.text import BadText
from tenantry.schemas.reading import check_text, readable

HEADERS_BYTES_MAX = 16_384
BODY_SECONDS_MAX = 30.0
# For the first byte of a body, and between any two.
BODY_SILENCE_SECONDS_MAX = 10.0
QUERY_FIELDS_MAX = 50

# A preference may be ignored (RFC 7240, section 2), and so is what is longer than this.
PREFER_CHARS_MAX = 1_024

# A quotation that does not end goes on to the end, so that no second one is searched in it.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?$)', re.DOTALL)

_HEX = rb"[0-9a-fA-F]{2}"
# Escapes of surrogates, in pairs (kept) or alone. What an even number of backslashes precedes is
# an escape; the pattern takes a time that is linear in the text.
_SURROGATES = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(?:(\\u[dD][89abAB]"
    + _HEX
    + rb"\\u[dD][c-fC-F]"
    + _HEX
    + rb")|\\u[dD][89a-fA-F]"
    + _HEX
    + rb")"
)

RawHeaders = Iterable[tuple[bytes, bytes]]


class RepeatedCredential(HttpError):
    """A credential header was sent twice."""


class ClientGone(HttpError):
    """The client went away before its request was whole."""


class BadRequest(Invalid):
    """The request is invalid."""


def read_credentials(headers: RawHeaders, counted: frozenset[bytes]) -> Credentials:
    """Return the credentials in *headers*, those that are *counted*.

    Raises:
        RepeatedCredential: A counted one was sent twice.
        HeadersTooLarge: All of them together are larger than `HEADERS_BYTES_MAX`.
    """
    found: dict[bytes, str] = {}
    size = 0
    for name, value in headers:
        size += len(name) + len(value)
        if name in counted:
            if name in found:
                raise RepeatedCredential
            found[name] = value.decode("latin-1").strip()
    if size > HEADERS_BYTES_MAX:
        raise HeadersTooLarge
    return Credentials(
        found.get(AUTHORIZATION) or None, found.get(API_KEY) or None, found.get(MCP_TOKEN) or None
    )


def read_headers(headers: RawHeaders, names: Iterable[str]) -> dict[str, str]:
    """Return the values of the headers with these *names*, by their names as arguments."""
    found: dict[str, list[str]] = {name.lower(): [] for name in names}
    for name, value in headers:
        known = name.decode("latin-1")
        if known in found:
            found[known].append(value.decode("latin-1").strip())
    # Source: RFC 9110, section 5.3
    return {name.replace("-", "_"): ", ".join(values) for name, values in found.items()}


def prefers(header: str, preference: str) -> bool:
    """Tell whether a ``Prefer`` header names *preference*, which takes no value (RFC 7240)."""
    if len(header) > PREFER_CHARS_MAX:
        return False
    # A quoted value can hold anything, commas and names of other preferences among it.
    plain = _QUOTED.sub(lambda quoted: "x" if len(quoted[0]) > len('""') else "", header.lower())
    for one in plain.split(","):
        name, _, value = one.partition(";")[0].partition("=")
        if name.strip() == preference and not value.strip():
            return True
    return False


async def read_body(endpoint: Endpoint, headers: RawHeaders, receive: Receive) -> bytes:
    """Return the whole body.

    Raises:
        BodyTooLarge: It has more than the endpoint takes.
        BodyTooSlow: It took longer than `BODY_SECONDS_MAX`, or nothing came of it for
            `BODY_SILENCE_SECONDS_MAX`.
        ClientGone: It never came.
        UnsupportedMediaType: There is one, and it says that it is no JSON.
    """
    body = received_at_once(receive)
    if body is None:
        # Before anything is read: reading sends `100 Continue`.
        _check_announced(endpoint, headers)
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                body = await _read_parts(receive, endpoint.body_bytes_max)
        except TimeoutError as error:
            raise BodyTooSlow from error
    if len(body) > endpoint.body_bytes_max:
        raise BodyTooLarge
    if body and not _is_json(headers):
        raise UnsupportedMediaType
    return body


def decode_body(endpoint: Endpoint, body: bytes) -> Any:
    """Return the endpoint's request, from its body. None at all is an empty object.

    Raises:
        BadRequest: It cannot be read, or breaks the type of a member; the message says which.
    """
    try:
        decoded = endpoint.decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise BadRequest(readable(error)) from error
    except msgspec.DecodeError as error:
        # A lone surrogate is refused wherever it stands, and matters only where it was asked.
        if b"\\ud" not in body.lower():
            raise BadRequest(f"The body is not valid JSON ({error}).") from error
        decoded = _decode_asked(endpoint, body)
    # msgspec lets these two escape: nesting bombs, and text that is not UTF-8.
    except (RecursionError, UnicodeError) as error:
        raise BadRequest("The body is not valid JSON in UTF-8.") from error
    # In JSON text a NUL can only stand escaped.
    if b"\\u0000" in body:
        check_text(decoded)
    return decoded


def decode_query(endpoint: Endpoint, query: bytes) -> Any:
    """Return the endpoint's request, from the query string.

    Raises:
        BadRequest: It cannot be read, or breaks the type of a member; the message says which.
    """
    if not query and endpoint.unasked is not None:
        return endpoint.unasked
    try:
        members = _read_query(endpoint, query.decode())
        decoded = msgspec.convert(members, endpoint.request, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(readable(error)) from error
    except ValueError as error:  # UnicodeError among them
        raise BadRequest("The query string is invalid.") from error
    if b"%00" in query or b"\0" in query:
        check_text(decoded)
    return decoded


def read_parameters(values: Mapping[str, str]) -> dict[str, UUID | str]:
    """Return the parameters of a path: ids, but for ``slug``.

    Raises:
        NoSuchPath: What should be an id or a slug is none.
    """
    parameters: dict[str, UUID | str] = {}
    for name, value in values.items():
        if name == "slug":
            parameters[name] = slug_of(value)
            continue
        parsed = parse_id(value)
        if parsed is None:
            raise NoSuchPath
        parameters[name] = parsed
    return parameters


def _read_query(endpoint: Endpoint, query: str) -> dict[str, str]:
    pairs = parse_qsl(
        query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
    )
    members = dict(pairs)
    names = [name for name, _ in pairs]
    for name in endpoint.request.__struct_encode_fields__:
        if names.count(name) > 1:
            raise BadRequest(f"`{name}` was sent twice.")
    for name in endpoint.numbers & members.keys():
        if not (members[name].isascii() and members[name].isdigit()):
            raise BadRequest(f"`{name}` must be a whole number, in digits.")
        members[name] = _limited(members[name])
    return members


def _limited(digits: str) -> str:
    """Return a number as it is, or `PAGE_MAX` for one with so many digits that it is larger.

    The time to convert digits grows with the square of their count.
    """
    significant = digits.lstrip("0") or "0"
    return significant if len(significant) <= len(str(PAGE_MAX)) else str(PAGE_MAX)


def _decode_asked(endpoint: Endpoint, body: bytes) -> Any:
    """Decode a body that may hold half a surrogate pair, which matters only where it was asked.

    It is not decoded twice: each half becomes a NUL, which no member that was asked may hold.
    """
    try:
        decoded = endpoint.decoder.decode(_SURROGATES.sub(_without_half, body))
        check_text(decoded)
    except msgspec.ValidationError as error:
        raise BadRequest(readable(error)) from error
    except (msgspec.DecodeError, BadText, UnicodeError, RecursionError) as error:
        raise BadRequest("The body is not valid JSON, or its text is not Unicode.") from error
    return decoded


def _without_half(found: "re.Match[bytes]") -> bytes:
    backslashes, pair = found.groups()
    return found[0] if pair else backslashes + rb"\u0000"


async def _next_part(receive: Receive) -> Message:
    try:
        async with asyncio.timeout(BODY_SILENCE_SECONDS_MAX):
            return await receive()
    except TimeoutError as error:
        raise BodyTooSlow from error


async def _read_parts(receive: Receive, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= bytes_max:
        message = await _next_part(receive)
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _check_announced(endpoint: Endpoint, headers: RawHeaders) -> None:
    announced = 0
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            announced = int(value)
    if announced > endpoint.body_bytes_max:
        raise BodyTooLarge
    if announced and not _is_json(headers):
        raise UnsupportedMediaType


def _is_json(headers: RawHeaders) -> bool:
    for name, value in headers:
        if name == b"content-type":
            return value.partition(b";")[0].strip().lower() == b"application/json"
    return True
