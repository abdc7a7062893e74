"""The envelope of responses, and the table from error category to status."""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

import msgspec

from tenantry.access.login import LoginRefused
from tenantry.access.rate_limits import WINDOW_SECONDS, Quota, TooManyRequests
from tenantry.access.throttle import TooManyAttempts
from tenantry.api.streaming import Source, StreamedBody
from tenantry.kit.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TenantryError,
    Unauthenticated,
    Unavailable,
)
from tenantry.schemas.base import MetricsText
from tenantry.tenant.databases import TenantReadOnly

Headers = list[tuple[bytes, bytes]]

# The server closes the connection after the response (RFC 9112, section 9.6).
CLOSE = (b"connection", b"close")


class HttpError(TenantryError):
    """The request is rejected for its form, independent of the endpoint's operation."""

    status = HTTPStatus.BAD_REQUEST
    headers: Headers = []  # noqa: RUF012 - a constant


class ClientDisconnected(HttpError):
    """The client closed the connection before the response."""


class MethodNotAllowed(HttpError):
    """This path does not support this method."""

    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__()
        self.headers = [(b"allow", ", ".join(sorted(allowed)).encode())]


class BodyTooLarge(HttpError):
    """The body is too large."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class BodyTooSlow(HttpError):
    """The body did not arrive in time."""

    status = HTTPStatus.REQUEST_TIMEOUT
    # The rest of the body is not read (RFC 9110, section 15.5.9).
    headers: Headers = [CLOSE]  # noqa: RUF012 - a constant


class HeadersTooLarge(HttpError):
    """The headers are too large."""

    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class UnsupportedMediaType(HttpError):
    """The body must be application/json, without a Content-Encoding."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


# The first class in an error's method resolution order that is listed here determines the status.
STATUS: dict[type[TenantryError], HTTPStatus] = {
    Invalid: HTTPStatus.BAD_REQUEST,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    LoginRefused: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    TenantReadOnly: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    TooManyAttempts: HTTPStatus.TOO_MANY_REQUESTS,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

# One text for each category, so that it does not reveal which part of a credential was valid.
FIXED_MESSAGES: dict[type[TenantryError], str] = {
    Unauthenticated: "The token or key is missing or invalid.",
    Forbidden: "You are not allowed to do this.",
}

JSON = (b"content-type", b"application/json")
# Source: https://prometheus.io/docs/instrumenting/exposition_formats/
METRICS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
# Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
EVENT_STREAM = (b"content-type", b"text/event-stream")
JSON_LINES = (b"content-type", b"application/x-ndjson")
ZIP = (b"content-type", b"application/zip")
# A browser stores it; the name is fixed, because that of a tenant can have any characters.
ATTACHED = (b"content-disposition", b'attachment; filename="export.zip"')
GZIP = (b"content-encoding", b"gzip")
# Disables response buffering in nginx, which would delay events.
UNBUFFERED = (b"x-accel-buffering", b"no")
_INTERNAL = "Something went wrong on our side."
INTERNAL_CODE = "internal_error"
ERROR_CODE = b"x-error-code"


class Answer(msgspec.Struct, frozen=True):
    """A response, ready to be sent.

    Attributes:
        is_page: Whether the client may store the response and must revalidate it.
        is_negotiated: Whether the coding of the body depends on ``Accept-Encoding``.
    """

    status: int
    body: bytes | StreamedBody
    headers: Headers
    is_page: bool = False
    is_negotiated: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """Data with a status and headers, which a handler returns instead of plain data.

    Attributes:
        data: The data; None for a bare response without a body.
        status: A status that the endpoint declares.
        headers: Additional headers.
    """

    data: object
    status: HTTPStatus
    headers: Headers


_encode = msgspec.json.Encoder().encode


def success(data: object, *, status: int = 200) -> Answer:
    """Return a response with *data*."""
    return Answer(status, b'{"success":true,"data":' + _encode(data) + b"}", [JSON])


async def streamed_success(data: Source) -> Source:
    """Yield the body of a response with *data*, an iterator of chunks of JSON."""
    yield b'{"success":true,"data":'
    async with contextlib.aclosing(data):
        async for chunk in data:
            yield chunk
    yield b"}"


def done(message: str, *, status: int = 200) -> Answer:
    """Return a response without data, with a *message*."""
    return Answer(status, _encode({"success": True, "message": message}), [JSON])


def bare(data: object, *, status: int = 200) -> Answer:
    """Return a response without the envelope."""
    if data is None:
        return Answer(status, b"", [])
    if isinstance(data, MetricsText):
        return Answer(200, data.text.encode(), [METRICS])
    return Answer(status, _encode(data), [JSON])


def failure(error: TenantryError, *, token_sent: bool) -> Answer:
    """Return the response for *error*.

    The challenge of a 401 says whether the request had a token (RFC 6750, section 3.1).
    """
    code = code_of(type(error))
    if isinstance(error, HttpError):
        return _failure(error.status, code, error.message, error.headers)
    category = category_of(type(error))
    headers: Headers = []
    if STATUS[category] is HTTPStatus.UNAUTHORIZED:
        headers = [(b"www-authenticate", _challenge(token_sent=token_sent))]
    elif isinstance(error, Unavailable):
        headers = [(b"retry-after", str(error.retry_after_seconds).encode())]
    message = FIXED_MESSAGES.get(category, error.message)
    return _failure(STATUS[category], code, message, headers)


def rate_limit(quota: Quota) -> Headers:
    """Return the rate limit headers.

    Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4: q and w are the quota and
    its window in seconds, r is the remaining quota, t the seconds until it is reset.
    """
    left = f'"{quota.policy}";r={max(0, quota.remaining)};t={quota.reset_seconds}'
    return [_policy(quota.policy, quota.per_window), (b"ratelimit", left.encode())]


@lru_cache(maxsize=1_024)
def _policy(name: str, per_window: int) -> tuple[bytes, bytes]:
    policy = f'"{name}";q={per_window};w={WINDOW_SECONDS}'
    return b"ratelimit-policy", policy.encode()


def internal_error() -> Answer:
    """Return the response for an unexpected exception."""
    return _failure(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_CODE, _INTERNAL, [])


def category_of(error: type[TenantryError]) -> type[TenantryError]:
    """Return the class in `STATUS` that determines the status of a class of errors."""
    return next(category for category in error.__mro__ if category in STATUS)


def code_of(error: type[TenantryError]) -> str:
    """Return the ``X-Error-Code`` of a class of errors: its name in snake case.

    If the message is fixed, so is the code: it must not reveal more than the message.
    """
    if not issubclass(error, HttpError) and category_of(error) in FIXED_MESSAGES:
        error = category_of(error)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()


def _failure(status: HTTPStatus, code: str, message: str, headers: Headers) -> Answer:
    body = _encode({"success": False, "data": None, "message": message})
    return Answer(status, body, [JSON, (ERROR_CODE, code.encode()), *headers])


def _challenge(*, token_sent: bool) -> bytes:
    return b'Bearer error="invalid_token"' if token_sent else b"Bearer"
