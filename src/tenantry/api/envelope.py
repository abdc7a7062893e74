"""The envelope of responses, and the headers of their content."""

import contextlib
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from tenantry.api.streaming import Source, StreamedBody
from tenantry.schemas.base import MetricsText

Headers = list[tuple[bytes, bytes]]

# The server closes the connection after the response (RFC 9112, section 9.6).
CLOSE = (b"connection", b"close")


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


class Response(msgspec.Struct, frozen=True):
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


encode = msgspec.json.Encoder().encode
SUCCESS = b'{"success":true,"data":'
"""What precedes the data in the body of a response; a closing brace follows it."""


async def streamed_success(data: Source) -> Source:
    """Yield the body of a response with *data*, an iterator of chunks of JSON."""
    yield SUCCESS
    async with contextlib.aclosing(data):
        async for chunk in data:
            yield chunk
    yield b"}"


def done(message: str, *, status: int = 200) -> Response:
    """Return a response without data, with a *message*."""
    return Response(status, encode({"success": True, "message": message}), [JSON])


def bare(data: object, *, status: int = 200) -> Response:
    """Return a response without the envelope."""
    if data is None:
        return Response(status, b"", [])
    if isinstance(data, MetricsText):
        return Response(200, data.text.encode(), [METRICS])
    return Response(status, encode(data), [JSON])
