"""The levels of access: which credential headers are read, and how a caller is admitted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tenantry.access.identify import Credentials, Identity
from tenantry.access.principal import AdminContext
from tenantry.kit.context import OperationContext
from tenantry.services import Services
from tenantry.tenant import entry
from tenantry.tenant.entry import Admission, Demand, confirm_claimant

Caller = Identity | AdminContext | None
"""The verified owner of the credentials; None at the level Open."""

AUTHORIZATION = b"authorization"
API_KEY = b"x-api-key"
MCP_TOKEN = b"x-mcp-token"


async def confirm_nothing(_ctx: Any) -> None:
    """Check nothing: `enter` has checked everything."""


@dataclass(frozen=True)
class Level:
    """One level of access.

    Attributes:
        name: As in docs/api-conventions.md.
        headers: The credential headers that are read; others are ignored.
        identify: Verifies the credentials, without the tenant's database.
        enter: Takes the result of `identify` and returns the context for the handler. It may use
            the tenant's database.
        confirm: Performs the checks that `enter` left to the handler's statement. It is called if
            the request is rejected before that statement runs.
    """

    name: str
    headers: frozenset[bytes]
    identify: Callable[[Services, OperationContext, Credentials], Awaitable[Caller]]
    enter: Callable[[Services, OperationContext, Any, Demand], Awaitable[Any]]
    confirm: Callable[[Any], Awaitable[None]] = confirm_nothing


async def _identify_none(
    _services: Services, _ctx: OperationContext, _presented: Credentials
) -> Caller:
    return None


async def _open(
    _services: Services, ctx: OperationContext, _caller: Caller, _demand: Demand
) -> OperationContext:
    return ctx


async def _admin(
    _services: Services, _ctx: OperationContext, admin: AdminContext, _demand: Demand
) -> AdminContext:
    return admin


def _tenant_level(
    name: str,
    headers: frozenset[bytes],
    admission: Admission[Any],
    confirm: Callable[[Any], Awaitable[None]] = confirm_nothing,
) -> Level:
    """Return a level of access to a tenant."""
    return Level(
        name,
        headers,
        lambda services, ctx, presented: admission.identify(services.identifier, ctx, presented),
        lambda services, ctx, caller, demand: services.entry.admit(admission, ctx, caller, demand),
        confirm,
    )


_ANY = frozenset({AUTHORIZATION, API_KEY, MCP_TOKEN})

OPEN = Level("Open", frozenset(), _identify_none, _open)
ADMIN = Level(
    "Admin",
    frozenset({AUTHORIZATION}),
    lambda services, ctx, presented: services.identifier.admin(ctx, presented),
    _admin,
)
TENANT_LOGIN = _tenant_level("Tenant login", frozenset({API_KEY}), entry.LOGIN)
PUBLIC = _tenant_level("Public", frozenset({API_KEY, MCP_TOKEN}), entry.PUBLIC)
TENANT = _tenant_level("Tenant", _ANY, entry.TENANT)
PERSON = _tenant_level("Tenant, a person", _ANY, entry.PERSON)
CLAIMANT = _tenant_level(PERSON.name, _ANY, entry.CLAIMANT, confirm_claimant)
MCP = _tenant_level("MCP", _ANY, entry.ASSISTANT)
SIGNED_IN = _tenant_level("Tenant, signed in", _ANY, entry.SIGNED_IN)
