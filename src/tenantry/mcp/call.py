"""The caller of a tool or a resource."""

from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext

from tenantry.kit.errors import Forbidden
from tenantry.schemas.mcp import NULL
from tenantry.services import Services
from tenantry.tenant import entry
from tenantry.tenant.entry import Requirements, TenantContext


@dataclass(slots=True)
class Call:
    """The caller of a tool, and the services.

    Attributes:
        ctx: Created by `tenant.entry` from the token of this request.
        arguments: Of a tool, as JSON.
    """

    ctx: TenantContext
    services: Services
    arguments: bytes = NULL

    def allows(self, requirements: Requirements) -> bool:
        """Return whether scopes, the role and the tenant's modules satisfy *requirements*."""
        try:
            entry.require(self.ctx.identity, requirements)
            entry.require_role(self.ctx.role, requirements)
        except Forbidden:
            return False
        return True

    @property
    def is_for_person(self) -> bool:
        """Whether the token is bound to a user."""
        return self.ctx.identity.user_id is not None


def call_of(request: ServerRequestContext[Any, Any]) -> Call:
    """Return the caller that the HTTP door has passed to the SDK."""
    call = request.request
    assert isinstance(call, Call)
    return call
