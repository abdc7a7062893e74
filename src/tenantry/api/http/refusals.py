"""Responses to requests that do not reach the application."""

from http import HTTPStatus

from tenantry.api import error_responses
from tenantry.api.caching import cache_headers
from tenantry.api.envelope import CLOSE, Headers
from tenantry.api.error_responses import HttpError
from tenantry.kit.ids import new_request_id


def refusal_bytes(refusal: HttpError, default_headers: Headers) -> bytes:
    """Return the response to a request that does not reach the application, as bytes.

    The connection is closed after it.
    """
    answer = error_responses.failure(refusal, token_sent=False)
    assert isinstance(answer.body, bytes)
    headers = [
        *default_headers,
        *answer.headers,
        *cache_headers(frozenset(), is_page=False, is_negotiated=False),
        (b"x-request-id", new_request_id().encode()),
        (b"content-length", b"%d" % len(answer.body)),
        CLOSE,
    ]
    status_line = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n".encode()
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b%b\r\n%b" % (status_line, lines, answer.body)
