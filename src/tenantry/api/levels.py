"""The levels of access: which headers count, and how a request comes in."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenantry.access.identify import Credentials
from tenantry.access.principal import AdminContext
from tenantry.kit.context import OperationContext
from tenantry.services import Services
from tenantry.tenant.entry import (
    Claimant,
    Demand,
    PersonContext,
    TenantContext,
    confirm_claimant,
)

Ctx = TypeVar("Ctx")

AUTHORIZATION = b"authorization"
API_KEY = b"x-api-key"
MCP_TOKEN = b"x-mcp-token"


async def nothing_left(_ctx: Any) -> None:
    """Do nothing: coming in has checked everything."""


@dataclass(frozen=True)
class Level(Generic[Ctx]):
    """One level of access.

    Attributes:
        name: As in docs/api-conventions.md.
        headers: The credential headers that are looked at; the others do not exist here.
        enter: From credentials to the context that the level's handlers take first.
        confirm: Checks what `enter` has left to the handler's own statement, before
            anything else is refused.
    """

    name: str
    headers: frozenset[bytes]
    enter: Callable[[Services, OperationContext, Credentials, Demand], Awaitable[Ctx]]
    confirm: Callable[[Ctx], Awaitable[None]] = nothing_left


async def _open(
    _services: Services, ctx: OperationContext, _presented: Credentials, _demand: Demand
) -> OperationContext:
    return ctx


def _admin(
    services: Services, ctx: OperationContext, presented: Credentials, _demand: Demand
) -> Awaitable[AdminContext]:
    return services.identifier.admin(ctx, presented)


def _tenant_login(
    services: Services, ctx: OperationContext, presented: Credentials, _demand: Demand
) -> Awaitable[TenantContext]:
    return services.entry.for_login(ctx, presented)


def _public(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[TenantContext]:
    return services.entry.as_public(ctx, presented, demand)


def _tenant(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[TenantContext]:
    return services.entry.as_tenant(ctx, presented, demand)


def _person(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[PersonContext]:
    return services.entry.as_person(ctx, presented, demand)


def _claimant(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[Claimant]:
    return services.entry.as_claimant(ctx, presented, demand)


def _assistant(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[TenantContext]:
    return services.entry.as_assistant(ctx, presented, demand)


def _signed_in(
    services: Services, ctx: OperationContext, presented: Credentials, demand: Demand
) -> Awaitable[PersonContext]:
    return services.entry.as_signed_in(ctx, presented, demand)


_ANY = frozenset({AUTHORIZATION, API_KEY, MCP_TOKEN})

OPEN = Level("Open", frozenset(), _open)
ADMIN = Level("Admin", frozenset({AUTHORIZATION}), _admin)
TENANT_LOGIN = Level("Tenant login", frozenset({API_KEY}), _tenant_login)
PUBLIC = Level("Public", frozenset({API_KEY, MCP_TOKEN}), _public)
TENANT = Level("Tenant", _ANY, _tenant)
PERSON = Level("Tenant, a person", _ANY, _person)
CLAIMANT = Level(PERSON.name, _ANY, _claimant, confirm_claimant)
MCP = Level("MCP", _ANY, _assistant)
SIGNED_IN = Level("Tenant, signed in", _ANY, _signed_in)
