"""The levels of access: which credential headers are read, and what a caller must be."""

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenantry.access.identify import Credentials, Identifier, Identity
from tenantry.access.principal import AdminContext, TenantRole
from tenantry.kit.context import OperationContext
from tenantry.tenant.entry import PersonContext, TenantContext, UnconfirmedContext

Caller = Identity | AdminContext | None
"""The verified owner of the credentials; None at the level Open."""

AUTHORIZATION = b"authorization"
API_KEY = b"x-api-key"
MCP_TOKEN = b"x-mcp-token"

_Identify = Callable[[Identifier, OperationContext, Credentials], Awaitable[Caller]]


@dataclass(frozen=True)
class Level:
    """One level of access.

    Attributes:
        name: As in docs/api-conventions.md.
        headers: The credential headers that are read; others are ignored.
        identify: Verifies the credentials, without the tenant's database; None at the level Open.
        context: The context of the handler, at the levels of tenants: see `tenant.entry.admit`.
        requires_session: Whether an McpToken is rejected.
        admits_deleted_user: Whether the operation itself reports a deleted user (404).
        role: The role that the user must have in the tenant; None if the scope of the endpoint says
            which ones suffice.
    """

    name: str
    headers: frozenset[bytes]
    identify: _Identify | None
    context: type[TenantContext] = TenantContext
    requires_session: bool = False
    admits_deleted_user: bool = False
    role: TenantRole | None = None


_ANY = frozenset({AUTHORIZATION, API_KEY, MCP_TOKEN})

OPEN = Level("Open", frozenset(), None)
ADMIN = Level("Admin", frozenset({AUTHORIZATION}), Identifier.admin)
TENANT_LOGIN = Level("Tenant login", frozenset({API_KEY}), Identifier.public)
PUBLIC = Level("Public", frozenset({API_KEY, MCP_TOKEN}), Identifier.public)
TENANT = Level("Tenant", _ANY, Identifier.tenant)
PERSON = Level("Tenant, a person", _ANY, Identifier.tenant, PersonContext, admits_deleted_user=True)
UNCONFIRMED_PERSON = Level(PERSON.name, _ANY, Identifier.tenant, UnconfirmedContext)
MCP = Level("MCP", _ANY, Identifier.assistant)
SIGNED_IN = Level(
    "Tenant, signed in", _ANY, Identifier.tenant, PersonContext, requires_session=True
)
OWNER = dataclasses.replace(SIGNED_IN, name="Tenant, an owner", role=TenantRole.OWNER)
