"""Conditional requests (RFC 9110, section 13): a client that has the current version gets 304.

One small statement reads the version of everything that a response is made from. The entity tag
also covers the tenant, the path and query, and the release.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from uuid import UUID

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Answer
from tenantry.api.responses import represent
from tenantry.kit.negotiation import known_tags
from tenantry.kit.release import VERSION
from tenantry.tenant.entry import TenantContext

DIGEST_BYTES = 16

_RELEASE = VERSION.encode()


@dataclass(frozen=True, slots=True)
class Versioned:
    """Data, and the version of the rows that they were read from."""

    data: object
    version: UUID


async def conditional_answer(
    endpoint: Endpoint,
    ctx: TenantContext,
    scope: Mapping[str, Any],
    handle: Callable[[], Awaitable[Versioned]],
) -> Answer:
    """Return the response of *handle*, or 304 if the client has it already.

    Args:
        endpoint: An endpoint with a version.
        ctx: The caller's context.
        scope: The ASGI scope of the request.
        handle: The handler, with all its arguments bound.

    Raises:
        Exception: Whatever the handler raises.
    """
    assert endpoint.version is not None
    condition = _Condition(ctx.tenant.id, scope)
    if condition.has_tags:
        version = await endpoint.version(ctx)
        if condition.knows(version):
            return condition.not_modified(version)
    found = await handle()
    if condition.knows(found.version) or condition.is_any:
        return condition.not_modified(found.version)
    answer = msgspec.structs.replace(represent(endpoint, found.data), is_page=True)
    answer.headers.append((b"etag", condition.tag(found.version)))
    return answer


class _Condition:
    """The condition of a request: the entity tags in ``If-None-Match``.

    Args:
        tenant_id: The caller's tenant.
        scope: The ASGI scope of the request.
    """

    def __init__(self, tenant_id: UUID, scope: Mapping[str, Any]) -> None:
        self._tenant_id = tenant_id
        self._scope = scope
        self._known = known_tags(scope["headers"])

    @property
    def has_tags(self) -> bool:
        """Whether the request contains any entity tag."""
        return bool(self._known)

    @property
    def is_any(self) -> bool:
        """Whether the request contains ``*``, which matches every version."""
        return b"*" in self._known

    def knows(self, version: UUID) -> bool:
        """Return whether the client has stored the response of *version*."""
        return bool(self._known) and self.tag(version) in self._known

    def tag(self, version: UUID) -> bytes:
        """Return the strong entity tag of the response of *version*."""
        path, query = self._scope["raw_path"], self._scope["query_string"]
        digest = blake2b(version.bytes + self._tenant_id.bytes, digest_size=DIGEST_BYTES)
        digest.update(b"%s\0%s\0%s" % (_RELEASE, path, query))
        return b'"%s"' % digest.hexdigest().encode()

    def not_modified(self, version: UUID) -> Answer:
        """Return a 304 response (RFC 9110, section 15.4.5)."""
        return Answer(304, b"", [(b"etag", self.tag(version))], is_page=True)
