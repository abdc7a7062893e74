"""Read the body of a request within limits of size, time and memory; decode it, or the query.

The memory for the bodies of all current requests of one process is limited. A body is held while it
arrives, and while its request waits for its turn. Each sender has a share, so one that fills its
own takes nothing from the others. Senders without a login have a pool of their own, so however many
they are, they take nothing from those with one.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.error_responses import (
    BodyTooLarge,
    BodyTooSlow,
    ClientDisconnected,
    UnsupportedMediaType,
)
from tenantry.api.http.framing import Sent, received_at_once
from tenantry.api.streaming import Receive
from tenantry.kit.errors import Invalid, Unavailable
from tenantry.kit.pages import PAGE_MAX
from tenantry.kit.text import BadText
from tenantry.schemas.base import check_text, readable

# 64 of the largest.
HELD_BYTES_MAX = 64 * 1_048_576
SENDER_BYTES_MAX = HELD_BYTES_MAX // 8
# Before a login a body has at most 65,536 bytes: this is 16 of the largest for each network.
STRANGERS_BYTES_MAX = 8 * 1_048_576
STRANGER_BYTES_MAX = STRANGERS_BYTES_MAX // 8
# Smaller bodies do not count, so no sender's large ones prevent a login. The number of connections
# limits them.
UNCOUNTED_BYTES = 4_096
QUERY_FIELDS_MAX = 50
JSON = b"application/json"
UNCODED = frozenset({b"", b"identity"})
# Lone surrogates in a larger body are an error: replacing them takes 1 us each.
SURROGATES_BYTES_MAX = 65_536

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


class TooManyBodies(Unavailable):
    """The bodies of the current requests take too much memory; try again later."""


class BodyMemory:
    """A pool of memory: limits the bodies of all its senders, and those of each."""

    def __init__(
        self, bytes_max: int = HELD_BYTES_MAX, sender_bytes_max: int = SENDER_BYTES_MAX
    ) -> None:
        self._left = bytes_max
        self._sender_bytes_max = sender_bytes_max
        self._of_senders: dict[object, int] = {}

    def take(self, sender: object, size: int) -> None:
        """Take *size* bytes for *sender*.

        Raises:
            TooManyBodies: So much is not left, and nothing was taken.
        """
        held = self._of_senders.get(sender, 0) + size
        if size > self._left or held > self._sender_bytes_max:
            raise TooManyBodies
        self._left -= size
        self._of_senders[sender] = held

    def give_back(self, sender: object, size: int) -> None:
        """Give back *size* bytes of *sender*."""
        self._left += size
        self._of_senders[sender] -= size
        if not self._of_senders[sender]:
            del self._of_senders[sender]


class BodyReservation(msgspec.Struct):
    """What the body of one request takes of a pool, until the request ends.

    Attributes:
        pool: The pool.
        sender: Whose share of it is taken.
        taken: Bytes of the pool.
    """

    pool: BodyMemory
    sender: object
    taken: int = 0

    def grow(self, arrived: int) -> None:
        """Count the body when *arrived* bytes of it are there: more than `UNCOUNTED_BYTES`.

        Raises:
            TooManyBodies: There is no memory for them.
        """
        self.pool.take(self.sender, arrived - self.taken)
        self.taken = arrived

    def release(self) -> None:
        """Give back what was taken."""
        if self.taken:
            self.pool.give_back(self.sender, self.taken)
            self.taken = 0


class BadRequest(Invalid):
    """The request is invalid."""


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
