"""The only way into a tenant: from credentials to a context, for every door."""

from dataclasses import dataclass
from uuid import UUID

from tenantry.access.identify import Credentials, Identifier, Identity
from tenantry.access.principal import Scope
from tenantry.catalog.credentials import ApiKey
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.tenant import modules, users
from tenantry.tenant.databases import TenantDatabase, TenantDatabases
from tenantry.tenant.users import User


class ScopeRequired(Forbidden):
    """The McpToken lacks the scope of this operation."""


class PersonRequired(Forbidden):
    """This operation is a person's, and the McpToken is bound to no user."""


class SignInRequired(Forbidden):
    """This operation is a signed-in person's; no McpToken will do."""


class UserInactive(Forbidden):
    """The user is switched off."""


class UserGone(Unauthenticated):
    """The user was deleted."""


class SessionEnded(Unauthenticated):
    """The session was ended by a change of the password or of the account."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What an operation asks for, beside a way in.

    Attributes:
        scope: What an McpToken must allow.
        module: What must be on for the tenant.
    """

    scope: Scope | None = None
    module: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantContext(OperationContext):
    """Somebody asks inside a tenant. Holding one is the proof: only this module makes them.

    Attributes:
        tenant: The tenant.
        database: Its database.
        api_key: The key that named the tenant, if one did.
    """

    tenant: Tenant
    database: TenantDatabase
    api_key: ApiKey | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonContext(TenantContext):
    """A person asks, or a token that is bound to one.

    Attributes:
        user_id: The person.
        jti: The person's own session, when that is how they came in.
    """

    user_id: UUID
    jti: str | None


class Entry:
    """Lets in whoever may come in. Every method may also raise what opening a database raises."""

    def __init__(self, identifier: Identifier, databases: TenantDatabases) -> None:
        self._identifier = identifier
        self._databases = databases

    async def for_login(self, ctx: OperationContext, presented: Credentials) -> TenantContext:
        """Let in whoever holds the tenant's API key, to log in.

        Raises:
            BadKey, TenantInactive: See `access.identify`.
        """
        return await self._inside(ctx, await self._identifier.key(ctx, presented))

    async def as_public(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Let in an McpToken, or whoever holds the tenant's API key.

        Raises:
            Unauthenticated: A credential is missing or not good.
            Forbidden: Good credentials that do not suffice.
        """
        identity = await self._identifier.public(ctx, presented)
        return await self._enter(ctx, identity, demand)

    async def as_tenant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Let in an McpToken, or a user of the tenant.

        Raises:
            Unauthenticated: A credential is missing or not good, or its session has ended.
            Forbidden: Good credentials that do not suffice.
        """
        identity = await self._identifier.tenant(ctx, presented)
        return await self._enter(ctx, identity, demand)

    async def as_person(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> PersonContext:
        """Let in a person who acts on their own account, even one that is no longer there.

        The operation itself then finds no such user, and says so (404).

        Raises:
            Unauthenticated, Forbidden: As for `as_tenant`.
            PersonRequired: The McpToken is bound to no user.
        """
        identity = await self._identifier.tenant(ctx, presented)
        user_id = _user_id(identity)
        if user_id is None:
            raise PersonRequired
        gone_is_refused = identity.claims is None
        inside = await self._enter(ctx, identity, demand, gone_is_refused=gone_is_refused)
        return _person(inside, identity, user_id)

    async def as_signed_in(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> PersonContext:
        """Let in a person with a session of their own.

        Raises:
            Unauthenticated, Forbidden: As for `as_tenant`.
            SignInRequired: It is an McpToken.
        """
        identity = await self._identifier.tenant(ctx, presented)
        if identity.claims is None:
            raise SignInRequired
        inside = await self._enter(ctx, identity, demand)
        return _person(inside, identity, identity.claims.nameid)

    async def _enter(
        self,
        ctx: OperationContext,
        identity: Identity,
        demand: Demand,
        *,
        gone_is_refused: bool = True,
    ) -> TenantContext:
        token = identity.mcp_token
        if token is not None:
            modules.require(identity.tenant, modules.MCP)
            if demand.scope is not None and demand.scope not in token.scopes:
                raise ScopeRequired
        if demand.module is not None:
            modules.require(identity.tenant, demand.module)
        inside = await self._inside(ctx, identity)
        user_id = _user_id(identity)
        if user_id is not None:
            user = await users.find(inside.database, user_id)
            if user is not None:
                _check_session(user, identity)
            elif gone_is_refused:
                raise UserGone
        return inside

    async def _inside(self, ctx: OperationContext, identity: Identity) -> TenantContext:
        return TenantContext(
            request_id=ctx.request_id,
            now=ctx.now,
            actor=_actor(identity),
            address=ctx.address,
            tenant=identity.tenant,
            api_key=identity.api_key,
            database=await self._databases.open(identity.tenant),
        )


def _person(inside: TenantContext, identity: Identity, user_id: UUID) -> PersonContext:
    return PersonContext(
        request_id=inside.request_id,
        now=inside.now,
        actor=inside.actor,
        address=inside.address,
        tenant=inside.tenant,
        api_key=inside.api_key,
        database=inside.database,
        user_id=user_id,
        jti=identity.claims.jti if identity.claims else None,
    )


def _user_id(identity: Identity) -> UUID | None:
    if identity.claims is not None:
        return identity.claims.nameid
    return identity.mcp_token.user_id if identity.mcp_token is not None else None


def _actor(identity: Identity) -> str:
    if identity.mcp_token is not None:
        return f"mcp-token:{identity.mcp_token.id}"
    if identity.claims is not None:
        return f"user:{identity.claims.nameid}"
    return f"tenant:{identity.tenant.id}"


def _check_session(user: User, identity: Identity) -> None:
    if not user.is_active:
        raise UserInactive
    claims = identity.claims
    if claims and claims.generation != user.generation and claims.jti != user.spared_jti:
        raise SessionEnded
