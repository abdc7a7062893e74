"""Read a request: its credential headers, its body, its members."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from tenantry.access.identify import Credentials
from tenantry.api.access_levels import API_KEY, AUTHORIZATION, MCP_TOKEN
from tenantry.api.endpoints import Endpoint, NoSuchPath, slug_of
from tenantry.api.error_responses import (
    BodyTooLarge,
    BodyTooSlow,
    ClientDisconnected,
    HeadersTooLarge,
    HttpError,
    UnsupportedMediaType,
)
from tenantry.api.http.body_memory import UNCOUNTED_BYTES, BodyReservation
from tenantry.api.http.framing import Sent, received_at_once
from tenantry.api.streaming import Receive
from tenantry.kit.errors import Invalid
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_MAX
from tenantry.kit.text import BadText
from tenantry.schemas.base import check_text, readable

HEADERS_BYTES_MAX = 16_384
QUERY_FIELDS_MAX = 50
JSON = b"application/json"
UNCODED = frozenset({b"", b"identity"})
# Lone surrogates in a larger body are an error: replacing them takes 1 us each.
SURROGATES_BYTES_MAX = 65_536

# A longer header is ignored, as a server may do (RFC 7240, section 2).
PREFER_CHARS_MAX = 1_024
# Source: RFC 7240, section 4.1
RESPOND_ASYNC = "respond-async"

# Of a version: it fits into 32 bits.
_NUMBER_FORM = re.compile(r"[1-9][0-9]{0,8}")
# An unterminated quoted string extends to the end, which keeps matching linear.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?$)', re.DOTALL)

_HEX = rb"[0-9a-fA-F]{2}"
# Escapes of surrogates, in pairs (kept) or alone. An escape is preceded by an even number of
# backslashes. Matching takes linear time.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How slowly a body may arrive, in seconds.

    Attributes:
        seconds_max: Until the whole body has arrived.
        silence_seconds_max: Until the first byte, and between any two bytes.
        slow_seconds: After a slower body, the caller is authenticated again. Otherwise a client
            that holds back a body could act for as long as `seconds_max` with a revoked credential.
    """

    seconds_max: float = 30.0
    silence_seconds_max: float = 10.0
    slow_seconds: float = 0.5


BODY_LIMITS = BodyLimits()


class RepeatedCredential(HttpError):
    """A credential header was sent twice."""


class BadRequest(Invalid):
    """The request is invalid."""


def read_credentials(headers: RawHeaders, counted: frozenset[bytes]) -> Credentials:
    """Return the credentials in the headers of a request that are *counted*.

    Raises:
        RepeatedCredential: A credential header was sent twice.
        HeadersTooLarge: The headers together are larger than `HEADERS_BYTES_MAX`.
    """
    found: dict[bytes, str] = {}
    if sum(map(len, chain.from_iterable(headers))) > HEADERS_BYTES_MAX:
        raise HeadersTooLarge
    for name, value in headers:
        if name in counted:
            if name in found:
                raise RepeatedCredential
            # Other blanks are not those of HTTP (RFC 9110, section 5.6.3), and make it invalid.
            found[name] = value.strip(b" \t").decode("latin-1")
    return Credentials(
        found.get(AUTHORIZATION) or None, found.get(API_KEY) or None, found.get(MCP_TOKEN) or None
    )


def is_token(name: bytes, value: bytes) -> bool:
    """Return whether the value of a credential header has the form of a token."""
    if name != AUTHORIZATION:
        return bool(value.strip())
    scheme, _, token = value.strip().partition(b" ")
    return scheme.lower() == b"bearer" and bool(token.strip())


def read_headers(headers: RawHeaders, names: Iterable[str]) -> dict[str, str]:
    """Return the values of the headers *names*, as keyword arguments for a handler."""
    found: dict[str, list[str]] = {name.lower(): [] for name in names}
    for name, value in headers:
        known = name.decode("latin-1")
        if known in found:
            found[known].append(value.decode("latin-1").strip())
    # Source: RFC 9110, section 5.3
    return {name.replace("-", "_"): ", ".join(values) for name, values in found.items()}


def prefers(header: str, preference: str) -> bool:
    """Return whether a ``Prefer`` header contains *preference*, without a value (RFC 7240)."""
    if len(header) > PREFER_CHARS_MAX:
        return False
    # A quoted value may contain commas and the names of other preferences.
    plain = _QUOTED.sub(lambda quoted: "x" if len(quoted[0]) > len('""') else "", header.lower())
    for one in plain.split(","):
        name, _, value = one.partition(";")[0].partition("=")
        if name.strip() == preference and not value.strip():
            return True
    return False


def keep_alive_of(endpoint: Endpoint, headers: RawHeaders) -> float | None:
    """Return the interval in which spaces are sent before a slow response; None for none.

    They send the status of the endpoint, so none are sent before a 202.
    """
    prefer = read_headers(headers, endpoint.headers).get("prefer", "")
    return None if prefers(prefer, RESPOND_ASYNC) else endpoint.keep_alive_seconds


async def read_body(
    endpoint: Endpoint,
    sent: Sent,
    receive: Receive,
    reserved: BodyReservation,
    limits: BodyLimits = BODY_LIMITS,
) -> bytes:
    """Return the whole body, which *reserved* counts.

    Raises:
        BodyTooLarge: It is larger than the endpoint accepts.
        BodyTooSlow: It took too long, or no byte arrived for too long.
        ClientDisconnected: The client closed the connection before the end of the body.
        TooManyBodies: There is no memory for it.
        UnsupportedMediaType: There is a body, and it is not plain JSON by its headers.
    """
    # No coding is supported (RFC 9110, section 8.4).
    is_json = (
        sent.get(b"content-type", JSON).partition(b";")[0].strip().lower() == JSON
        and sent.get(b"content-encoding", b"").strip().lower() in UNCODED
    )
    body = received_at_once(receive)
    if body is None:
        # First check the headers: reading the body sends `100 Continue`. The parser keeps blanks.
        announced = sent.get(b"content-length", b"").strip()
        if announced.isdigit() and int(announced) > endpoint.body_bytes_max:
            raise BodyTooLarge
        if announced.strip(b"0") and not is_json:
            raise UnsupportedMediaType
        try:
            async with asyncio.timeout(limits.seconds_max):
                body = await _read_parts(receive, endpoint.body_bytes_max, reserved, limits)
        except TimeoutError as error:
            raise BodyTooSlow from error
    elif len(body) > endpoint.body_bytes_max:
        raise BodyTooLarge
    elif len(body) > UNCOUNTED_BYTES:
        reserved.grow(len(body))
    if body and not is_json:
        raise UnsupportedMediaType
    return body


def decode_body(endpoint: Endpoint, body: bytes) -> Any:
    """Return the endpoint's request from *body*; an empty body is an empty object.

    Raises:
        BadRequest: It is not valid JSON, or a member has the wrong type; the message says which.
    """
    try:
        decoded = endpoint.decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise BadRequest(readable(error)) from error
    except msgspec.DecodeError as error:
        # msgspec rejects a lone surrogate anywhere; unknown members with one are ignored.
        if len(body) > SURROGATES_BYTES_MAX or b"\\ud" not in body.lower():
            raise BadRequest(f"The body is not valid JSON ({error}).") from error
        decoded = _decode_surrogates(endpoint, body)
    # msgspec raises these two for deep nesting and for text that is not UTF-8.
    except (RecursionError, UnicodeError) as error:
        raise BadRequest("The body is not valid JSON in UTF-8.") from error
    # In JSON text a NUL is always escaped.
    if b"\\u0000" in body:
        check_text(decoded)
    return decoded


def decode_query(endpoint: Endpoint, query: bytes) -> Any:
    """Return the endpoint's request from the query string.

    Raises:
        BadRequest: It is invalid, or a member has the wrong type; the message says which.
    """
    if not query and endpoint.empty_request is not None:
        return endpoint.empty_request
    try:
        members = _read_query(endpoint, query.decode())
        decoded = msgspec.convert(members, endpoint.request, strict=False)
    except msgspec.ValidationError as error:
        text = readable(error).replace("Object missing required field", "The query string has no")
        raise BadRequest(text) from error
    except ValueError as error:  # including UnicodeError
        raise BadRequest("The query string is invalid.") from error
    if b"%00" in query or b"\0" in query:
        check_text(decoded)
    return decoded


def read_parameters(values: Mapping[str, str]) -> dict[str, UUID | str | int]:
    """Return the parameters of a path: ids, except ``slug`` and ``number``.

    Raises:
        NoSuchPath: A value is not a valid id, slug or number.
    """
    parameters: dict[str, UUID | str | int] = {}
    for name, value in values.items():
        if name == "slug":
            parameters[name] = slug_of(value)
            continue
        if name == "number":
            if not _NUMBER_FORM.fullmatch(value):
                raise NoSuchPath
            parameters[name] = int(value)
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
            raise BadRequest(f"`{name}` must be an integer, in decimal digits.")
        members[name] = _limited(members[name])
    return members


def _limited(digits: str) -> str:
    """Return *digits*, or `PAGE_MAX` if there are so many that the number is larger.

    The time to convert digits grows with the square of their count.
    """
    significant = digits.lstrip("0") or "0"
    return significant if len(significant) <= len(str(PAGE_MAX)) else str(PAGE_MAX)


def _decode_surrogates(endpoint: Endpoint, body: bytes) -> Any:
    """Decode a body that may contain a lone surrogate, which is allowed in unknown members.

    Each lone surrogate is replaced by a NUL, which `check_text` rejects in known members.
    """
    try:
        decoded = endpoint.decoder.decode(_SURROGATES.sub(_replace_lone, body))
        check_text(decoded)
    except msgspec.ValidationError as error:
        raise BadRequest(readable(error)) from error
    except (msgspec.DecodeError, BadText, UnicodeError, RecursionError) as error:
        raise BadRequest("The body is not valid JSON, or its text is not Unicode.") from error
    return decoded


def _replace_lone(found: "re.Match[bytes]") -> bytes:
    backslashes, pair = found.groups()
    return found[0] if pair else backslashes + rb"\u0000"


async def _read_parts(
    receive: Receive, bytes_max: int, reserved: BodyReservation, limits: BodyLimits
) -> bytes:
    body = bytearray()
    while True:
        async with asyncio.timeout(limits.silence_seconds_max):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        part = message.get("body", b"")
        if len(body) + len(part) > bytes_max:
            raise BodyTooLarge
        body += part
        if len(body) > UNCOUNTED_BYTES:
            reserved.grow(len(body))
        if not message.get("more_body", False):
            return bytes(body)
