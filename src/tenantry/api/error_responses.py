"""The response to each error: its status, its code, and its text, such as that of a 401."""

import re
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from tenantry.access.login import LoginRefused
from tenantry.access.login_throttle import TooManyAttempts
from tenantry.access.request_limits import TooManyRequests
from tenantry.api.envelope import CLOSE, JSON, Headers, Response, encode
from tenantry.db.sessions import StorageFull
from tenantry.kit.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TenantryError,
    Unauthenticated,
    Unavailable,
)
from tenantry.kit.preconditions import ResourceChanged
from tenantry.schemas.mcp import McpAnswer, McpError
from tenantry.tenant.databases import TenantReadOnly
from tenantry.tenant.storage import TenantFull

_INTERNAL = "Something went wrong on our side."
INTERNAL_CODE = "internal_error"
ERROR_CODE = b"x-error-code"
# Source: JSON-RPC 2.0, section 5.1.
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


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
        methods = set(allowed)
        if "GET" in methods:
            methods.add("HEAD")
        self.headers = [(b"allow", ", ".join(sorted(methods)).encode())]


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


class IfMatchRequired(HttpError):
    """Send `If-Match` with the `ETag` of what you have read: this service requires it."""

    status = HTTPStatus.PRECONDITION_REQUIRED


# The first class in an error's method resolution order that is listed here determines the status.
STATUS: dict[type[TenantryError], HTTPStatus] = {
    Invalid: HTTPStatus.BAD_REQUEST,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    LoginRefused: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    TenantReadOnly: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    ResourceChanged: HTTPStatus.PRECONDITION_FAILED,
    TooManyAttempts: HTTPStatus.TOO_MANY_REQUESTS,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    TenantFull: HTTPStatus.INSUFFICIENT_STORAGE,
    StorageFull: HTTPStatus.INSUFFICIENT_STORAGE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

# One text for each category, so that it does not reveal which part of a credential was valid.
FIXED_MESSAGES: dict[type[TenantryError], str] = {
    Unauthenticated: "The token or key is missing or invalid.",
    Forbidden: "You are not allowed to do this.",
}


def failure(error: TenantryError, *, token_sent: bool) -> Response:
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


def message_refused(error: Invalid) -> Response:
    """Return the response for a body that is no JSON-RPC message: the error of that standard."""
    is_json = error.__cause__ is None or isinstance(error.__cause__, msgspec.ValidationError)
    wrong = McpError(INVALID_REQUEST if is_json else PARSE_ERROR, error.message)
    code = code_of(type(error)).encode()
    body = encode(McpAnswer("2.0", None, error=wrong))
    return Response(HTTPStatus.BAD_REQUEST, body, [JSON, (ERROR_CODE, code)])


def internal_error() -> Response:
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


def _failure(status: HTTPStatus, code: str, message: str, headers: Headers) -> Response:
    body = encode({"success": False, "data": None, "message": message})
    return Response(status, body, [JSON, (ERROR_CODE, code.encode()), *headers])


def _challenge(*, token_sent: bool) -> bytes:
    return b'Bearer error="invalid_token"' if token_sent else b"Bearer"
