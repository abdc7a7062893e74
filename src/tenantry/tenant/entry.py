"""The only way into a tenant: from credentials to a context, for every door."""

from dataclasses import dataclass
from uuid import UUID

from tenantry.access.identify import Credentials, Identifier, Identity
from tenantry.access.principal import Scope
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.tenant import modules, users
from tenantry.tenant.databases import TenantDatabase, TenantDatabases
from tenantry.tenant.users import UserInSession


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
    """The session was ended by a logout, or a change of the password or of the account."""


class McpTokenEnded(Unauthenticated):
    """The McpToken ended with a change of its user's password or account."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What an operation asks for, beside a way in.

    Attributes:
        scope: What an McpToken must allow.
        module: What must be on for the tenant.
    """

    scope: Scope | None = None
    module: str | None = None


class TenantContext(OperationContext, frozen=True, kw_only=True):
    """Somebody asks inside a tenant. Holding one is the proof: only this module makes them.

    Attributes:
        identity: What the credentials say.
        database: The tenant's.
    """

    identity: Identity
    database: TenantDatabase

    @property
    def tenant(self) -> Tenant:
        """The tenant."""
        return self.identity.tenant


class PersonContext(TenantContext, frozen=True, kw_only=True):
    """A person asks, or a token that is bound to one.

    Attributes:
        user_id: The person.
    """

    user_id: UUID

    @property
    def jti(self) -> str | None:
        """The person's own session, when that is how they came in."""
        claims = self.identity.claims
        return None if claims is None else claims.jti


class Claimant(TenantContext, frozen=True, kw_only=True):
    """Somebody claims to be a person, by good credentials; the user is not read yet.

    The operation's own statement must ask for what `confirm_claimant` asks for; so that one
    statement does for both. Whatever is refused before it, is refused after `confirm_claimant`.

    Attributes:
        user_id: The person.
    """

    user_id: UUID


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
        identity = await self._identifier.key(ctx, presented)
        return _inside(ctx, identity, await self._databases.open(identity.tenant))

    async def as_public(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Let in an McpToken, or whoever holds the tenant's API key.

        Raises:
            Unauthenticated: A credential is missing or not good.
            Forbidden: Good credentials that do not suffice.
        """
        return await self._enter(ctx, await self._identifier.public(ctx, presented), demand)

    async def as_tenant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Let in an McpToken, or a user of the tenant.

        Raises:
            Unauthenticated: A credential is missing or not good, or its session has ended.
            Forbidden: Good credentials that do not suffice.
        """
        return await self._enter(ctx, await self._identifier.tenant(ctx, presented), demand)

    async def as_person(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> PersonContext:
        """Let in a person who acts on their own account, even one that is no longer there.

        The operation itself then finds no such user, and says so (404).

        Raises:
            Unauthenticated, Forbidden: As for `as_tenant`.
            PersonRequired: The McpToken is bound to no user.
        """
        claimant = await self.as_claimant(ctx, presented, demand)
        await confirm_claimant(claimant)
        return _person(ctx, claimant.identity, claimant.database, claimant.user_id)

    async def as_claimant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> Claimant:
        """Let in like `as_person`, but leave it to the operation to look at the user.

        Raises:
            Unauthenticated, Forbidden: As for `as_person`, as far as credentials tell.
        """
        identity = await self._identifier.tenant(ctx, presented)
        user_id = acting_user(identity)
        if user_id is None:
            raise PersonRequired
        return _claimant(ctx, identity, await self._open(identity, demand), user_id)

    async def as_assistant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Let in an McpToken, whichever of its two headers it is in.

        Raises:
            Unauthenticated: It is missing or not good.
            Forbidden: A good one that does not suffice.
        """
        return await self._enter(ctx, await self._identifier.assistant(ctx, presented), demand)

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
        database = await self._open(identity, demand)
        await _confirm(identity, database)
        return _person(ctx, identity, database, identity.claims.nameid)

    async def _enter(
        self, ctx: OperationContext, identity: Identity, demand: Demand
    ) -> TenantContext:
        database = await self._open(identity, demand)
        await _confirm(identity, database)
        return _inside(ctx, identity, database)

    async def _open(self, identity: Identity, demand: Demand) -> TenantDatabase:
        require(identity, demand)
        return await self._databases.open(identity.tenant)


def acting_user(identity: Identity) -> UUID | None:
    """Return the user who acts: the person, or whom the McpToken is bound to, if to anybody."""
    if identity.claims is not None:
        return identity.claims.nameid
    return identity.mcp_token.user_id if identity.mcp_token is not None else None


def require(identity: Identity, demand: Demand) -> None:
    """Check that what the credentials say suffices for *demand*.

    Raises:
        ModuleInactive: A module is off for the tenant.
        ScopeRequired: The McpToken lacks the scope.
    """
    token = identity.mcp_token
    if token is not None:
        modules.require(identity.tenant, modules.MCP)
        if demand.scope is not None and demand.scope not in token.scopes:
            raise ScopeRequired
    if demand.module is not None:
        modules.require(identity.tenant, demand.module)


def claimant_of(ctx: TenantContext) -> Claimant:
    """Return whoever is inside as the person they act for, whose own statement looks again.

    Raises:
        PersonRequired: The McpToken is bound to no user.
    """
    user_id = acting_user(ctx.identity)
    if user_id is None:
        raise PersonRequired
    return _claimant(ctx, ctx.identity, ctx.database, user_id)


async def confirm_claimant(claimant: Claimant) -> None:
    """Check that the user behind a claimant may act, if there still is one.

    Raises:
        UserInactive, SessionEnded, McpTokenEnded: The user may not.
        UserGone: There is none, and the McpToken was bound to them.
    """
    identity = claimant.identity
    await _confirm(identity, claimant.database, gone_is_refused=identity.claims is None)


async def _confirm(
    identity: Identity, database: TenantDatabase, *, gone_is_refused: bool = True
) -> None:
    user_id = acting_user(identity)
    if user_id is None:
        return
    jti = None if identity.claims is None else identity.claims.jti
    user = await users.find_in_session(database, user_id, jti)
    if user is not None:
        _check_session(user, identity)
    elif gone_is_refused:
        raise UserGone


def _inside(ctx: OperationContext, identity: Identity, database: TenantDatabase) -> TenantContext:
    return TenantContext(
        request_id=ctx.request_id,
        now=ctx.now,
        actor=_actor(identity),
        address=ctx.address,
        identity=identity,
        database=database,
    )


def _person(
    ctx: OperationContext, identity: Identity, database: TenantDatabase, user_id: UUID
) -> PersonContext:
    return PersonContext(
        request_id=ctx.request_id,
        now=ctx.now,
        actor=_actor(identity),
        address=ctx.address,
        identity=identity,
        database=database,
        user_id=user_id,
    )


def _claimant(
    ctx: OperationContext, identity: Identity, database: TenantDatabase, user_id: UUID
) -> Claimant:
    return Claimant(
        request_id=ctx.request_id,
        now=ctx.now,
        actor=_actor(identity),
        address=ctx.address,
        identity=identity,
        database=database,
        user_id=user_id,
    )


def _actor(identity: Identity) -> str:
    if identity.mcp_token is not None:
        return f"mcp-token:{identity.mcp_token.id}"
    if identity.claims is not None:
        return f"user:{identity.claims.nameid}"
    return f"tenant:{identity.tenant.id}"


def _check_session(user: UserInSession, identity: Identity) -> None:
    if not user.is_active:
        raise UserInactive
    claims = identity.claims
    if claims is None:
        token = identity.mcp_token
        if token is not None and token.user_generation != user.token_generation:
            raise McpTokenEnded
        return
    is_current = claims.generation == user.generation or claims.jti == user.spared_jti
    if not is_current or user.session_ended:
        raise SessionEnded
