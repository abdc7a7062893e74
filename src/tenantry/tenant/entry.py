"""Admission to a tenant: from credentials to a context, for every door."""

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
    """What an operation requires of an admitted caller.

    Attributes:
        scope: The scope that an McpToken must have.
        module: The module that must be active for the tenant.
    """

    scope: Scope | None = None
    module: str | None = None


class TenantContext(OperationContext, frozen=True, kw_only=True):
    """The context of an admitted caller. Only this module creates one, so it is the proof.

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
    """The context of a caller with valid credentials, before the user is read.

    The operation's own statement must check what `confirm_claimant` checks, so that one
    statement suffices. An earlier rejection must call `confirm_claimant` first.

    Attributes:
        user_id: The person.
    """

    user_id: UUID


class Entry:
    """Admits callers. Every method may also raise the errors of opening a database."""

    def __init__(self, identifier: Identifier, databases: TenantDatabases) -> None:
        self._identifier = identifier
        self._databases = databases

    async def for_login(self, ctx: OperationContext, presented: Credentials) -> TenantContext:
        """Admit the holder of a tenant's API key, for a login.

        Raises:
            BadKey, TenantInactive: See `access.identify`.
        """
        identity = await self._identifier.key(ctx, presented)
        return _inside(ctx, identity, await self._databases.open(identity.tenant))

    async def as_public(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Admit an McpToken, or the holder of a tenant's API key.

        Raises:
            Unauthenticated: A credential is missing or invalid.
            Forbidden: Valid credentials that do not suffice.
        """
        return await self._enter(ctx, await self._identifier.public(ctx, presented), demand)

    async def as_tenant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Admit an McpToken, or a user of the tenant.

        Raises:
            Unauthenticated: A credential is missing or invalid, or its session has ended.
            Forbidden: Valid credentials that do not suffice.
        """
        return await self._enter(ctx, await self._identifier.tenant(ctx, presented), demand)

    async def as_person(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> PersonContext:
        """Admit a user for operations on their own account, even a deleted user.

        The operation then finds no such user, and raises the 404.

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
        """Admit like `as_person`, but leave the check of the user to the operation.

        Raises:
            Unauthenticated, Forbidden: As for `as_person`, except the checks of the user.
        """
        identity = await self._identifier.tenant(ctx, presented)
        user_id = acting_user(identity)
        if user_id is None:
            raise PersonRequired
        return _claimant(ctx, identity, await self._open(identity, demand), user_id)

    async def as_assistant(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> TenantContext:
        """Admit an McpToken, from either of its two headers.

        Raises:
            Unauthenticated: It is missing or invalid.
            Forbidden: A valid one that does not suffice.
        """
        return await self._enter(ctx, await self._identifier.assistant(ctx, presented), demand)

    async def as_signed_in(
        self, ctx: OperationContext, presented: Credentials, demand: Demand
    ) -> PersonContext:
        """Admit a user with a session.

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
    """Return the user who acts: the person, or the user that the McpToken is bound to, if any."""
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
    """Return an admitted caller as claimant, for an operation that checks the user itself.

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
