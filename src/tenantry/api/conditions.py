"""Conditional requests: whoever has the current version of an answer does not get it again.

The version is that of all that an answer is made from, so it is known by one small statement.
The entity tag says in addition whose it is, what was asked, and by which release it is
represented: none of them may change without it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version as release_of
from typing import Any
from uuid import UUID

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Answer
from tenantry.api.responses import represent
from tenantry.kit.negotiation import known_tags
from tenantry.tenant.entry import TenantContext

DIGEST_BYTES = 16

_RELEASE = release_of("tenantry").encode()


@dataclass(frozen=True, slots=True)
class Versioned:
    """Data, and the version of what they were made from."""

    data: object
    version: UUID


async def answer_unless_known(
    endpoint: Endpoint,
    ctx: TenantContext,
    scope: Mapping[str, Any],
    handle: Callable[[], Awaitable[Versioned]],
) -> Answer:
    """Return what *handle* makes, or that the client has it already.

    Args:
        endpoint: One that tells a version.
        ctx: Who asks.
        scope: Of the request (ASGI).
        handle: The handler, with all its arguments.

    Raises:
        Exception: Whatever the handler raises.
    """
    assert endpoint.version is not None
    condition = _Condition(ctx.tenant.id, scope)
    if condition.is_open:
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
    """What the client has already, and whether that is what it would get.

    Args:
        tenant_id: Whose data are asked for.
        scope: Of the request (ASGI).
    """

    def __init__(self, tenant_id: UUID, scope: Mapping[str, Any]) -> None:
        self._tenant_id = tenant_id
        self._scope = scope
        self._known = known_tags(scope["headers"])

    @property
    def is_open(self) -> bool:
        """Whether the client has anything."""
        return bool(self._known)

    @property
    def is_any(self) -> bool:
        """Whether it has something, whatever that is: then it wants nothing else."""
        return b"*" in self._known

    def knows(self, version: UUID) -> bool:
        """Tell whether it has the answer that is made from *version*."""
        return bool(self._known) and self.tag(version) in self._known

    def tag(self, version: UUID) -> bytes:
        """Return the entity tag of that answer: a strong one, for the same bytes are sent again."""
        path, query = self._scope["raw_path"], self._scope["query_string"]
        made = blake2b(version.bytes + self._tenant_id.bytes, digest_size=DIGEST_BYTES)
        made.update(b"%s\0%s\0%s" % (_RELEASE, path, query))
        return b'"%s"' % made.hexdigest().encode()

    def not_modified(self, version: UUID) -> Answer:
        """Return the answer to who has it already (RFC 9110, section 15.4.5)."""
        return Answer(304, b"", [(b"etag", self.tag(version))], is_page=True)
