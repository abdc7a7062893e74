"""The levels of access: which credential headers count, and how a caller is admitted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenantry.access.identify import Credentials, Identity
from tenantry.access.principal import AdminContext
from tenantry.kit.context import OperationContext
from tenantry.services import Services
from tenantry.tenant import entry
from tenantry.tenant.entry import Admission, Demand, confirm_claimant

Ctx = TypeVar("Ctx")
Caller = Identity | AdminContext | None
"""Who the credentials belong to, verified; None where none count."""

AUTHORIZATION = b"authorization"
API_KEY = b"x-api-key"
MCP_TOKEN = b"x-mcp-token"


async def confirm_nothing(_ctx: Any) -> None:
    """Return at once: `enter` has checked everything."""


@dataclass(frozen=True)
class Level(Generic[Ctx]):
    """One level of access.

    Attributes:
        name: As in docs/api-conventions.md.
        headers: The credential headers that count; the others are ignored.
        identify: Verifies the credentials, without the tenant's database.
        enter: Returns the context that the level's handlers take first, for what `identify` has
            returned. It may use the tenant's database.
        confirm: Checks what `enter` has left to the handler's own statement, before any
            other error is returned.
    """

    name: str
    headers: frozenset[bytes]
    identify: Callable[[Services, OperationContext, Credentials], Awaitable[Caller]]
    enter: Callable[[Services, OperationContext, Any, Demand], Awaitable[Ctx]]
    confirm: Callable[[Ctx], Awaitable[None]] = confirm_nothing


async def _identify_nobody(
    _services: Services, _ctx: OperationContext, _presented: Credentials
) -> Caller:
    return None


async def _open(
    _services: Services, ctx: OperationContext, _caller: Caller, _demand: Demand
) -> OperationContext:
    return ctx


def _identify_admin(
    services: Services, ctx: OperationContext, presented: Credentials
) -> Awaitable[Caller]:
    return services.identifier.admin(ctx, presented)


async def _admin(
    _services: Services, _ctx: OperationContext, admin: AdminContext, _demand: Demand
) -> AdminContext:
    return admin


def _inside(
    name: str,
    headers: frozenset[bytes],
    admission: Admission[Any],
    confirm: Callable[[Any], Awaitable[None]] = confirm_nothing,
) -> Level[Any]:
    """Return a level inside a tenant."""

    def identify(
        services: Services, ctx: OperationContext, presented: Credentials
    ) -> Awaitable[Caller]:
        return admission.identify(services.identifier, ctx, presented)

    def enter(
        services: Services, ctx: OperationContext, identity: Identity, demand: Demand
    ) -> Awaitable[Any]:
        return services.entry.admit(admission, ctx, identity, demand)

    return Level(name, headers, identify, enter, confirm)


_ANY = frozenset({AUTHORIZATION, API_KEY, MCP_TOKEN})

OPEN = Level("Open", frozenset(), _identify_nobody, _open)
ADMIN = Level("Admin", frozenset({AUTHORIZATION}), _identify_admin, _admin)
TENANT_LOGIN = _inside("Tenant login", frozenset({API_KEY}), entry.LOGIN)
PUBLIC = _inside("Public", frozenset({API_KEY, MCP_TOKEN}), entry.PUBLIC)
TENANT = _inside("Tenant", _ANY, entry.TENANT)
PERSON = _inside("Tenant, a person", _ANY, entry.PERSON)
CLAIMANT = _inside(PERSON.name, _ANY, entry.CLAIMANT, confirm_claimant)
MCP = _inside("MCP", _ANY, entry.ASSISTANT)
SIGNED_IN = _inside("Tenant, signed in", _ANY, entry.SIGNED_IN)
