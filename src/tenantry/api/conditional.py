"""Conditional requests (RFC 9110, section 13): a client that has the current version gets 304.

For public pages, one small statement reads the version of everything that a response is made from.
The entity tag also covers the tenant, the path and query, and the release.

For a resource that several people edit, the entity tag is the digest of its representation. A
change with a false If-Match or If-None-Match gets 412, so no change is lost that its caller has not
seen.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import SUCCESS, Response, encode
from tenantry.api.error_responses import IfMatchRequired
from tenantry.api.http.framing import Sent
from tenantry.api.responses import represent
from tenantry.kit.errors import Invalid
from tenantry.kit.negotiation import ANY, RawHeaders, expected_tags, known_tags
from tenantry.kit.preconditions import Expected, ResourceExists
from tenantry.kit.release import VERSION
from tenantry.tenant.entry import TenantContext


class BadPrecondition(Invalid):
    """`If-Match` and `If-None-Match` hold entity tags, or an asterisk alone."""


DIGEST_BYTES = 16
PRECONDITIONS = frozenset({b"if-match", b"if-none-match"})

_RELEASE = VERSION.encode()


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
    one is 404 in any case. None without those headers.

    Raises:
        BadPrecondition: An asterisk is in a list (RFC 9110, sections 13.1.1 and 13.1.2).
    """
    if PRECONDITIONS.isdisjoint(headers):
        return None
    sent, schema = headers.items(), endpoint.edits
    tags, unwanted = expected_tags(sent), known_tags(sent)
    assert schema is not None
    if any(ANY in some and len(some) > 1 for some in (tags or unwanted, unwanted)):
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


def _tag_of(representation: bytes) -> bytes:
    """Return the strong entity tag of a representation, in JSON."""
    return b'"%s"' % blake2b(representation, digest_size=DIGEST_BYTES).hexdigest().encode()


def _tag(version: UUID, ctx: TenantContext, scope: Mapping[str, Any]) -> bytes:
    """Return the strong entity tag of the response of *version*."""
    digest = blake2b(version.bytes + ctx.tenant.id.bytes, digest_size=DIGEST_BYTES)
    digest.update(b"%s\0%s\0%s" % (_RELEASE, scope["raw_path"], scope["query_string"]))
    return b'"%s"' % digest.hexdigest().encode()
