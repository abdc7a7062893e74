"""Conditional requests (RFC 9110, section 13): a client that has the current version gets 304.

One small statement reads the version of everything that a response is made from. The entity tag
also covers the tenant, the path and query, and the release.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Response
from tenantry.api.responses import represent
from tenantry.kit.negotiation import ANY
from tenantry.kit.release import VERSION
from tenantry.tenant.blog.published import Versioned
from tenantry.tenant.entry import TenantContext

DIGEST_BYTES = 16

_RELEASE = VERSION.encode()


async def unchanged_response(
    endpoint: Endpoint, ctx: TenantContext, scope: Mapping[str, Any], known: frozenset[bytes]
) -> Response | None:
    """Return 304 if the current version of the response is one of the *known* tags, else None."""
    if endpoint.version is None:
        return None
    tag = _tag(await endpoint.version(ctx), ctx, scope)
    return _not_modified(tag) if tag in known else None


def versioned_response(
    endpoint: Endpoint,
    ctx: TenantContext,
    scope: Mapping[str, Any],
    known: frozenset[bytes],
    found: Versioned[Any],
) -> Response:
    """Return the response with *found* and its entity tag, or 304 if that is *known*."""
    tag = _tag(found.version, ctx, scope)
    if tag in known or ANY in known:
        return _not_modified(tag)
    answer = msgspec.structs.replace(represent(endpoint, found.content), is_page=True)
    answer.headers.append((b"etag", tag))
    return answer


def _tag(version: UUID, ctx: TenantContext, scope: Mapping[str, Any]) -> bytes:
    """Return the strong entity tag of the response of *version*."""
    digest = blake2b(version.bytes + ctx.tenant.id.bytes, digest_size=DIGEST_BYTES)
    digest.update(b"%s\0%s\0%s" % (_RELEASE, scope["raw_path"], scope["query_string"]))
    return b'"%s"' % digest.hexdigest().encode()


def _not_modified(tag: bytes) -> Response:
    """Return a 304 response (RFC 9110, section 15.4.5)."""
    return Response(304, b"", [(b"etag", tag)], is_page=True)
