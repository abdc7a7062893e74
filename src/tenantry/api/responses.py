"""Convert what a handler returns into a response, and send it.

A client that has the current version of a resource gets 304 (RFC 9110, section 13). For public
pages, one small statement reads the version of everything that a response is made from. The entity
tag also covers the tenant, the path and query, and the release. For a resource that several people
edit, it is the digest of the representation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from email.utils import format_datetime
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from types import AsyncGeneratorType
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tenantry.access.identify import Identity
from tenantry.access.request_limits import WINDOW_SECONDS
from tenantry.api import envelope
from tenantry.api.caching import cache_headers
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import (
    ATTACHED,
    CLOSE,
    EVENT_STREAM,
    GZIP,
    JSON,
    JSON_LINES,
    SUCCESS,
    UNBUFFERED,
    ZIP,
    Headers,
    Reply,
    Response,
    encode,
)
from tenantry.api.error_responses import IfMatchRequired
from tenantry.api.http.framing import Sent, sent_at_once
from tenantry.api.requests import RequestState
from tenantry.api.streaming import (
    LARGE_BYTES,
    ClientHungUp,
    Receive,
    ResponseAborted,
    Send,
    Source,
    StreamedBody,
    after_spaces,
    begin,
    if_admitted,
    send_body,
    while_admitted,
)
from tenantry.catalog.credentials import ApiKey
from tenantry.kit.errors import Forbidden, Invalid, Unauthenticated, Unavailable
from tenantry.kit.negotiation import ANY, RawHeaders, accepts_gzip, expected_tags, known_tags
from tenantry.kit.preconditions import Expected, ResourceExists
from tenantry.kit.release import VERSION
from tenantry.schemas.base import ZipFile
from tenantry.tenant.entry import TenantContext

# A constant, because in Python 3.11 access to a member of an enumeration is slow.
NOT_MODIFIED = HTTPStatus.NOT_MODIFIED

DIGEST_BYTES = 16
PRECONDITIONS = frozenset({b"if-match", b"if-none-match"})
_RELEASE = VERSION.encode()

_log = structlog.get_logger(__name__)


class BadPrecondition(Invalid):
    """`If-Match` and `If-None-Match` hold entity tags, or an asterisk alone."""


def represent(endpoint: Endpoint, data: Any) -> Response:
    """Return the response of an endpoint with *data*."""
    status: int = endpoint.status
    more: Headers = []
    if isinstance(data, Reply):
        data, status, more = data.data, data.status, data.headers
    elif endpoint.response is None and not endpoint.is_bare:
        return envelope.done(endpoint.message, status=status)
    if endpoint.is_bare:
        answer = envelope.bare(data, status=status)
        answer.headers.extend(more)
        return answer
    return Response(status, SUCCESS + encode(data) + b"}", [JSON, *more])


async def unchanged_response(
    endpoint: Endpoint, ctx: TenantContext, scope: Mapping[str, Any], known: frozenset[bytes]
) -> Response | None:
    """Return 304 if the current version of the response is one of the *known* tags, else None."""
    if endpoint.version is None:
        return None
    tag = _tag(await endpoint.version(ctx), ctx, scope)
    return Response(304, b"", [(b"etag", tag)], is_page=True) if tag in known else None


def conditional_response(
    endpoint: Endpoint,
    ctx: TenantContext,
    scope: Mapping[str, Any],
    known: frozenset[bytes],
    found: Any,
) -> Response:
    """Return the response with *found* and its entity tag, or 304 if that is *known*.

    *found* is `Versioned`, or a resource that the endpoint edits; None if it has deleted that.
    """
    if found is None:
        return represent(endpoint, None)
    is_page = endpoint.edits is None
    answer = represent(endpoint, found.content if is_page else found)
    assert isinstance(answer.body, bytes)
    tag = _tag(found.version, ctx, scope) if is_page else _tag_of(answer.body[len(SUCCESS) : -1])
    if known and (tag in known or ANY in known):
        return Response(304, b"", [(b"etag", tag)], is_page=is_page)
    answer.headers.append((b"etag", tag))
    return msgspec.structs.replace(answer, is_page=True) if is_page else answer


def require_if_match(headers: RawHeaders) -> None:
    """Check that a change is conditional.

    Raises:
        IfMatchRequired: It is not.
    """
    if expected_tags(headers) is None:
        raise IfMatchRequired


def expected_of(endpoint: Endpoint, headers: Sent) -> Expected:
    """Return a function that compares a resource with If-Match and If-None-Match.

    It raises `ResourceExists` if If-None-Match names the resource, as an asterisk does: a missing
    one is 404 in any case. None if those headers name no tag.

    Raises:
        BadPrecondition: An asterisk is in a list (RFC 9110, sections 13.1.1 and 13.1.2).
    """
    sent, schema = headers.items(), endpoint.edits
    tags, unwanted = expected_tags(sent), known_tags(sent)
    assert schema is not None
    if any(ANY in some and len(some) > 1 for some in (tags or (), unwanted)):
        raise BadPrecondition
    wanted = None if tags is None or ANY in tags else tags
    if wanted is None and not unwanted:
        return None

    def is_expected(current: Any) -> bool:
        tag = _tag_of(encode(schema.of(current)))
        if wanted is not None and tag not in wanted:
            return False
        if ANY in unwanted or tag in unwanted:
            raise ResourceExists
        return True

    return is_expected


async def streamed_response(
    endpoint: Endpoint,
    data: Source,
    headers: Iterable[tuple[bytes, bytes]],
    *,
    is_head: bool = False,
) -> Response:
    """Return a response that is produced in chunks: JSON, JSON lines, events, or a ZIP file.

    The *headers* are those of the request, for ``Accept-Encoding``. For HEAD, no ZIP file is begun:
    a download that is not sent is not in the audit log, and takes the place of no other.

    Raises:
        Exception: Any error of *data* before the first chunk.
    """
    if endpoint.is_event_stream:
        chunks = await begin(data)
        return Response(endpoint.status, chunks, [EVENT_STREAM, UNBUFFERED])
    if endpoint.response is ZipFile and is_head:
        return Response(endpoint.status, StreamedBody(b"", None), [ZIP, ATTACHED])
    if endpoint.response is ZipFile:
        chunks = await begin(data, at_least=LARGE_BYTES)
        return Response(
            endpoint.status, chunks.first if chunks.is_whole else chunks, [ZIP, ATTACHED]
        )
    body = data if endpoint.is_bare else envelope.streamed_success(data)
    chunks = await begin(body, at_least=LARGE_BYTES)
    response_headers: Headers = [JSON_LINES if endpoint.is_bare else JSON]
    if chunks.is_whole:
        return Response(endpoint.status, chunks.first, response_headers, is_negotiated=True)
    if accepts_gzip(headers):
        chunks.compress()
        response_headers.append(GZIP)
    return Response(endpoint.status, chunks, response_headers, is_negotiated=True)


async def long_response(
    endpoint: Endpoint,
    work: Awaitable[Any],
    readmit: Callable[[], Awaitable[object]],
    seconds: float | None,
) -> Response:
    """Return the response of *work*; if it is slow, a response that starts with spaces.

    They are sent every *seconds*; None for no spaces. *readmit* raises if the caller has lost
    access in the meantime.

    Raises:
        Exception: Any error of *work* before the first space.
    """
    working = asyncio.create_task(_work(endpoint, work, readmit))
    try:
        await asyncio.wait({working}, timeout=seconds)
    except BaseException:
        working.cancel()
        raise
    if seconds is None or working.done():
        return working.result()
    chunks = await begin(after_spaces(asyncio.create_task(_late(endpoint, working)), seconds))
    return Response(endpoint.status, chunks, [JSON, UNBUFFERED])


async def _work(
    endpoint: Endpoint, work: Awaitable[Any], readmit: Callable[[], Awaitable[object]]
) -> Response:
    data = await if_admitted(work, readmit)
    if isinstance(data, AsyncGeneratorType):
        # Never compressed: the head of a late response does not say so.
        return await streamed_response(endpoint, while_admitted(data, readmit), ())
    return represent(endpoint, data)


async def _late(endpoint: Endpoint, working: "asyncio.Task[Response]") -> StreamedBody:
    answer = await working
    assert answer.status == endpoint.status, "this status was sent before the response"
    return answer.body if isinstance(answer.body, StreamedBody) else StreamedBody(answer.body, None)


async def send_response(
    send: Send, receive: Receive, answer: Response, request: RequestState
) -> None:
    """Send a response, with the headers that every response has.

    Raises:
        ResponseAborted: A streamed body ended with an error, after its head was sent.
    """
    body = answer.body
    headers = [
        *answer.headers,
        *cache_headers(
            request.endpoint.level.headers if request.endpoint else frozenset(),
            is_page=answer.is_page,
            is_negotiated=answer.is_negotiated,
        ),
        (b"x-request-id", request.request_id.encode()),
    ]
    if request.quota is not None:
        # Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4: q and w are the quota
        # and its window in seconds, r is the remaining quota, t the seconds until it is reset.
        quota = request.quota
        left = f'"{quota.policy}";r={max(0, quota.remaining)};t={quota.reset_seconds}'
        headers += _policy(quota.policy, quota.per_window), (b"ratelimit", left.encode())
    if isinstance(request.caller, Identity):
        key = request.caller.api_key
        if request.ctx is not None and key is not None and key.replaced_at is not None:
            headers += _deprecation(key)
    # A 304 has no Content-Length: it would be that of the body that is not sent (RFC 9110, 8.6).
    if isinstance(body, bytes) and answer.status != NOT_MODIFIED:
        headers.append((b"content-length", str(len(body)).encode()))
        is_simple = not request.is_head and CLOSE not in headers
        if is_simple and sent_at_once(send, answer.status, headers, body):
            return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(body, StreamedBody):
        if not request.is_head:
            await _send_chunks(send, receive, body, request)
            return
        await body.close()
    await send({"type": "http.response.body", "body": b"" if request.is_head else body})


async def _send_chunks(
    send: Send, receive: Receive, body: StreamedBody, request: RequestState
) -> None:
    try:
        await send_body(body, receive, send)
    except ClientHungUp as error:
        request.error = type(error).__name__
    except Exception as error:  # noqa: BLE001 - logged; the client gets an incomplete response
        request.error = type(error).__name__
        if isinstance(error, Unavailable):
            request.log_cause(error)
        elif not isinstance(error, Unauthenticated | Forbidden):
            _log.exception("response aborted", request_id=request.request_id)
        raise ResponseAborted from None


def _deprecation(key: ApiKey) -> Headers:
    """Return the deprecation headers, if the API key was rotated (RFC 9745, RFC 8594)."""
    if key.replaced_at is None or key.expires_at is None:
        return []
    since = f"@{int(key.replaced_at.timestamp())}"
    until = format_datetime(key.expires_at, usegmt=True)
    return [(b"deprecation", since.encode()), (b"sunset", until.encode())]


@lru_cache(maxsize=1_024)
def _policy(name: str, per_window: int) -> tuple[bytes, bytes]:
    policy = f'"{name}";q={per_window};w={WINDOW_SECONDS}'
    return b"ratelimit-policy", policy.encode()


def _tag_of(representation: bytes) -> bytes:
    """Return the strong entity tag of a representation, in JSON."""
    return b'"%s"' % blake2b(representation, digest_size=DIGEST_BYTES).hexdigest().encode()


def _tag(version: UUID, ctx: TenantContext, scope: Mapping[str, Any]) -> bytes:
    """Return the strong entity tag of the response of *version*."""
    digest = blake2b(version.bytes + ctx.tenant.id.bytes, digest_size=DIGEST_BYTES)
    digest.update(b"%s\0%s\0%s" % (_RELEASE, scope["raw_path"], scope["query_string"]))
    return b'"%s"' % digest.hexdigest().encode()
