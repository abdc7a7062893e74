"""Admit callers to a tenant, for every interface: from verified credentials to a context."""

from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.identify import Identity
from tenantry.access.principal import WRITES_CONTENT, Scope, TenantRole, allows
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.tenant import modules, users
from tenantry.tenant.databases import TenantDatabase, TenantDatabases
from tenantry.tenant.tables import ended_session, user
from tenantry.tenant.users import User


class ScopeRequired(Forbidden):
    """The McpToken lacks the scope of this operation."""


class RoleRequired(Forbidden):
    """The role of the user in the tenant does not suffice for this operation."""


class PersonRequired(Forbidden):
    """This operation requires a user, and the McpToken is bound to none."""


class SignInRequired(Forbidden):
    """This operation requires a session; an McpToken is not sufficient."""


class UserInactive(Forbidden):
    """The user is inactive."""


class UserDeleted(Unauthenticated):
    """The user was deleted."""


class SessionEnded(Unauthenticated):
    """The session was ended by a logout, or a change of the password or of the account."""


class McpTokenEnded(Unauthenticated):
    """The McpToken ended with a change of its user's password or account."""


class UserInSession(User, frozen=True):
    """A user, with the state of the caller's session.

    Attributes:
        session_ended: Whether the user has logged out of this session.
    """

    session_ended: bool


session_ended = sa.exists().where(
    ended_session.c.jti == sa.bindparam("session_jti", type_=sa.String)
)
_FIND_IN_SESSION = users.before_and_now(
    UserInSession,
    lambda *some: sa.select(*some, session_ended.label("session_ended")).where(
        user.c.id == sa.bindparam("user")
    ),
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What an operation requires of a caller with verified credentials.

    Attributes:
        scope: The scope that an McpToken must have.
        module: The module that must be active for the tenant.
        writes: Whether it writes to the tenant's data: a read-only tenant rejects it.
        adds: Whether a tool adds content, which is rejected when the storage is full. The door
            reads that of its endpoint.
        requires_session: Whether any McpToken is rejected.
        admits_deleted_user: Whether the operation itself reports a deleted user.
        role: The role that the user must have, or None: then *scope* says which ones suffice, also
            without an McpToken.
    """

    scope: Scope | None = None
    module: str | None = None
    writes: bool = False
    adds: bool = False
    requires_session: bool = False
    admits_deleted_user: bool = False
    role: TenantRole | None = None


class TenantContext(OperationContext, frozen=True, kw_only=True):
    """A caller who was admitted to a tenant. Only this module creates one.

    Attributes:
        tenant: That of the identity.
        identity: The verified credentials.
        role: That of the user, read for this request. An McpToken without a user has that of an
            editor, within its scopes. A caller whose role was not read has that of a reader.
    """

    tenant: Tenant
    identity: Identity
    database: TenantDatabase
    role: TenantRole


class _UserContext(TenantContext, frozen=True, kw_only=True):
    """The caller is a user, with a session or an McpToken that is bound to the user."""

    @property
    def user_id(self) -> UUID:
        """The user."""
        assert self.identity.user_id is not None, "checked by `admit`"
        return self.identity.user_id


class PersonContext(_UserContext, frozen=True, kw_only=True):
    """A user; the session or the McpToken was checked in the tenant's database."""

    @property
    def jti(self) -> str | None:
        """The session of the user; None with an McpToken."""
        claims = self.identity.claims
        return None if claims is None else claims.jti


class UnconfirmedContext(_UserContext, frozen=True, kw_only=True):
    """A user with valid credentials; the user's row is not checked yet.

    The operation's own statement must include the checks of `confirm_user`, which saves a
    statement. An error before that statement is raised after `confirm_user`.
    """


Ctx = TypeVar("Ctx", bound=TenantContext)


async def admit(
    ctx: OperationContext,
    databases: TenantDatabases,
    identity: Identity,
    requirements: Requirements,
    kind: type[Ctx],
) -> Ctx:
    """Return the context of a caller who may perform an operation.

    Args:
        ctx: The context without the caller.
        databases: The tenant databases.
        identity: The verified credentials.
        requirements: What the operation requires.
        kind: The type of the context. `PersonContext` and `UnconfirmedContext` require a user who
            acts; the latter leaves the check of the user's row to the operation.

    Raises:
        Unauthenticated: The session has ended, or the user was deleted.
        Forbidden: The credentials are valid and do not suffice.
        TenantReadOnly, DatabaseUnavailable, TenantOutdated: See `TenantDatabases.open`.
    """
    if requirements.requires_session and identity.claims is None:
        raise SignInRequired
    if kind is not TenantContext and identity.user_id is None:
        raise PersonRequired
    if identity.mcp_token is not None or requirements.module is not None:
        require(identity, requirements)
    database = await databases.open(identity.tenant, writes=requirements.writes)
    role = TenantRole.READER
    if kind is not UnconfirmedContext:
        is_admitted = requirements.admits_deleted_user and identity.claims is not None
        role = await _confirm(identity, database, rejects_deleted=not is_admitted)
    require_role(role, requirements)
    return kind(
        request_id=ctx.request_id,
        now=ctx.now,
        actor=identity.actor,
        address=ctx.address,
        tenant=identity.tenant,
        identity=identity,
        database=database,
        role=role,
    )


def require_role(role: TenantRole, requirements: Requirements) -> None:
    """Check that a role meets *requirements*.

    Raises:
        RoleRequired: It does not.
    """
    has_role = requirements.role is None or requirements.role is role
    if not has_role or (role is TenantRole.READER and requirements.scope in WRITES_CONTENT):
        raise RoleRequired


def require(identity: Identity, requirements: Requirements) -> None:
    """Check that the credentials meet *requirements*.

    Raises:
        ModuleInactive: A module is off for the tenant.
        ScopeRequired: The McpToken lacks the scope.
    """
    token = identity.mcp_token
    if token is not None:
        modules.require(identity.tenant, modules.MCP)
        if requirements.scope is not None and not allows(token.scopes, requirements.scope):
            raise ScopeRequired
    if requirements.module is not None:
        modules.require(identity.tenant, requirements.module)


def unconfirmed(ctx: TenantContext) -> UnconfirmedContext:
    """Return the context of a user for an operation whose statement checks the user again.

    Raises:
        PersonRequired: The McpToken is bound to no user.
    """
    if ctx.identity.user_id is None:
        raise PersonRequired
    return UnconfirmedContext(**msgspec.structs.asdict(ctx))


async def confirm_user(ctx: _UserContext) -> None:
    """Check that the user is active and the session or McpToken is current.

    A deleted user of a session passes: the operation itself returns 404.

    Raises:
        UserInactive, SessionEnded, McpTokenEnded: A check failed.
        UserDeleted: The user of the McpToken was deleted.
    """
    identity = ctx.identity
    await _confirm(identity, ctx.database, rejects_deleted=identity.claims is None)


async def _confirm(
    identity: Identity, database: TenantDatabase, *, rejects_deleted: bool
) -> TenantRole:
    """Check the caller's user, if there is one, and return the role of the caller."""
    if identity.user_id is None:
        return TenantRole.EDITOR if identity.mcp_token else TenantRole.READER
    jti = None if identity.claims is None else identity.claims.jti
    found = await _find_in_session(database, identity.user_id, jti)
    if found is not None:
        _check_session(found, identity)
        return TenantRole(found.role)
    if rejects_deleted:
        raise UserDeleted
    return TenantRole.READER


async def _find_in_session(
    database: TenantDatabase, user_id: UUID, jti: str | None
) -> UserInSession | None:
    """Return the user with this id, for the session *jti*, or for an McpToken if that is None."""
    found = await users.known(database, _FIND_IN_SESSION)
    return await database.fetch_one(found, user=user_id, session_jti=jti)


def _check_session(found: UserInSession, identity: Identity) -> None:
    if not found.is_active:
        raise UserInactive
    claims = identity.claims
    if claims is None:
        token = identity.mcp_token
        if token is not None and token.user_generation != found.token_generation:
            raise McpTokenEnded
        return
    is_current = claims.generation == found.generation or claims.jti == found.spared_jti
    if not is_current or found.session_ended:
        raise SessionEnded
