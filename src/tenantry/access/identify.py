"""Verify the credentials of a request, and return the tenant or the admin that they identify.

Each credential is verified first (401). Then they are compared with each other and with the level
of access, and the tenant must be active (403). No tenant database is opened here.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Generic
from uuid import UUID

import msgspec

from tenantry.access.principal import AdminContext, Role
from tenantry.access.tokens import Claims, Tokens
from tenantry.catalog import admins, credentials, tenants
from tenantry.catalog.admins import Admin
from tenantry.catalog.credentials import ApiKey, Credential, McpToken
from tenantry.catalog.database import Catalog
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.kit.secrets import digest, is_well_formed

API_KEY_KIND = "tnk_"
MCP_TOKEN_KIND = "tnm_"  # noqa: S105 - a prefix, not a secret
_PREFIXES: dict[type, str] = {ApiKey: API_KEY_KIND, McpToken: MCP_TOKEN_KIND}
# How often the last use of a credential is written, at most.
WRITTEN_EVERY = timedelta(seconds=60)
NOTED_MAX = 10_000
KNOWN_MAX = 10_000
_NEVER = datetime.max.replace(tzinfo=UTC)


class BadKey(Unauthenticated):
    """The API key is missing, blank, unknown or expired."""


class BadMcpToken(Unauthenticated):
    """The McpToken is missing, unknown, expired or revoked."""


class AdminSessionEnded(Unauthenticated):
    """The admin's session has ended."""


class AdminInactive(Forbidden):
    """The admin is inactive."""


class WrongRole(Forbidden):
    """The bearer token is a tenant user's where an admin's is required, or the reverse."""


class OtherTenant(Forbidden):
    """The credentials belong to different tenants."""


class TenantInactive(Forbidden):
    """The tenant is suspended."""


class Credentials(msgspec.Struct, frozen=True):
    """The credential headers of a request, as received; None when absent or blank."""

    authorization: str | None = None
    api_key: str | None = None
    mcp_token: str | None = None


class Identity(msgspec.Struct, frozen=True):
    """An active tenant, and the verified credentials of the caller.

    Attributes:
        tenant: The tenant that the credentials identify.
        actor: The caller, as the audit log names them.
        caller_id: The id that rate limits count: of the user, the unbound McpToken, or the API key.
            An McpToken that is bound to a user counts as the user, who could issue many of them.
        user_id: The user of the session, or the one that the McpToken is bound to; else None.
        claims: The claims of a user's bearer token, if the level of access requires one.
        mcp_token: The McpToken, if one was sent; `claims` and `api_key` are None then.
        api_key: The API key, if it identified the tenant.
    """

    tenant: Tenant
    actor: str
    caller_id: UUID
    user_id: UUID | None = None
    claims: Claims | None = None
    mcp_token: McpToken | None = None
    api_key: ApiKey | None = None

    @property
    def is_by_key(self) -> bool:
        """Whether an API key alone identifies the caller: a website, or anyone who reads it."""
        return self.mcp_token is None and self.claims is None


class _CachedAdmin(msgspec.Struct, frozen=True):
    admin: Admin
    ended: frozenset[str]


class _Cached(msgspec.Struct, Generic[Credential], frozen=True):
    credential: Credential
    tenant: Tenant


class _Known(msgspec.Struct, frozen=True):
    """An identity that was verified: valid until a time, and until the cache is cleared."""

    identity: Identity
    until: datetime
    generation: int


class Usage:
    """Records the last use of credentials: in memory first, and in the background.

    It is written at most once in `WRITTEN_EVERY` for each of them, never as part of a request.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._written: dict[UUID, datetime] = {}
        self._noted: dict[UUID, tuple[ApiKey | McpToken, datetime]] = {}

    def note(self, used: ApiKey | McpToken, now: datetime) -> None:
        """Record the use of a credential, in memory."""
        written = self._written.get(used.id)
        if written is not None and now - written < WRITTEN_EVERY:
            return
        if len(self._written) >= NOTED_MAX:
            self._written.clear()
        self._written[used.id] = now
        self._noted[used.id] = used, now

    async def write(self) -> None:
        """Write the recorded times. If the catalog is unavailable, they are dropped."""
        noted, self._noted = self._noted, {}
        try:
            for used, used_at in noted.values():
                await credentials.note_use(self._catalog, used, used_at)
        except DatabaseUnavailable:
            self._written.clear()


class Identifier:
    """Identifies callers by their credentials, with the cached values of the catalog."""

    def __init__(self, catalog: Catalog, tokens: Tokens, usage: Usage) -> None:
        self._cache = catalog.cache
        self._tokens = tokens
        self._usage = usage
        # By the kind of the identification, and the digest of the credentials.
        self._known: dict[tuple[str, bytes], _Known] = {}

    def recall(self, kind: str, presented: Credentials, now: datetime) -> Identity | None:
        """Return what `public` or `tenant` returned for the same credentials, if it is still valid.

        It is the way of nearly every request. An McpToken is not remembered.

        Args:
            kind: The name of the method.
            presented: The credentials.
            now: The time of the request.
        """
        if presented.mcp_token is not None:
            return None
        known = self._known.get((kind, _digest(presented)))
        if known is None or known.generation != self._cache.generation or known.until <= now:
            return None
        key = known.identity.api_key
        if key is None or monotonic_seconds() >= self._cache.fresh_until:
            return None
        self._usage.note(key, now)
        return known.identity

    async def admin(self, ctx: OperationContext, presented: Credentials) -> AdminContext:
        """Return the context of an admin.

        Raises:
            BadToken, AdminSessionEnded: There is no valid bearer token.
            WrongRole, AdminInactive: The bearer token is valid, but not of an active admin.
        """
        claims = await self._tokens.verify(presented.authorization, now=ctx.now)
        if claims.role is not Role.ADMIN:
            raise WrongRole
        found = await self._cache.get(
            ("admin", claims.nameid), lambda session: _read_admin(session, claims.nameid)
        )
        if found is None:
            raise AdminSessionEnded
        admin = found.admin
        if not admin.is_active:
            raise AdminInactive
        if admin.generation != claims.generation or claims.jti in found.ended:
            raise AdminSessionEnded
        return AdminContext(
            request_id=ctx.request_id,
            now=ctx.now,
            actor=admin.email,
            address=ctx.address,
            email=admin.email,
            admin_id=admin.id,
            jti=claims.jti,
            session_began_at=datetime.fromtimestamp(claims.auth_time, UTC),
            session_expires_at=datetime.fromtimestamp(claims.exp, UTC),
            signing_key_id=claims.kid,
            generation=claims.generation,
        )

    async def public(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of the McpToken if there is one, else of the API key.

        Raises:
            BadMcpToken, BadKey: The credential is missing or invalid.
            OtherTenant, TenantInactive: The credentials are valid and do not suffice.
        """
        if presented.mcp_token is not None:
            return await self._by_mcp_token(ctx, presented)
        generation = self._cache.generation
        found = await self._require_key(presented.api_key, ctx.now)
        if not found.tenant.is_active:
            raise TenantInactive
        key = found.credential
        identity = Identity(found.tenant, f"tenant:{found.tenant.id}", key.id, api_key=key)
        self._remember("public", presented, identity, generation)
        return identity

    async def tenant(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of the McpToken if there is one, else of the key and bearer token.

        Raises:
            BadMcpToken, BadKey, BadToken: A credential is missing or invalid.
            WrongRole, OtherTenant, TenantInactive: The credentials are valid and do not suffice.
        """
        if presented.mcp_token is not None:
            return await self._by_mcp_token(ctx, presented)
        generation = self._cache.generation
        found = await self._require_key(presented.api_key, ctx.now)
        claims = await self._tokens.verify(presented.authorization, now=ctx.now)
        if claims.role is not Role.TENANT_USER:
            raise WrongRole
        # A token without a tenant matches no tenant: None is never a tenant's id.
        if claims.tenant_id != found.tenant.id:
            raise OtherTenant
        if not found.tenant.is_active:
            raise TenantInactive
        user_id, key = claims.nameid, found.credential
        identity = Identity(
            found.tenant, f"user:{user_id}", user_id, user_id, claims=claims, api_key=key
        )
        self._remember("tenant", presented, identity, generation)
        return identity

    async def assistant(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of an McpToken, sent in its own header or as a bearer token.

        Raises:
            BadMcpToken: It is missing or invalid.
            OtherTenant, TenantInactive: It is valid and does not suffice.
        """
        token = presented.mcp_token or _bearer(presented.authorization)
        with_token = Credentials(api_key=presented.api_key, mcp_token=token)
        return await self._by_mcp_token(ctx, with_token)

    def _remember(
        self, kind: str, presented: Credentials, identity: Identity, generation: int
    ) -> None:
        """Store an *identity* that was verified since the cache had this *generation*."""
        ends = [_NEVER if identity.api_key is None else identity.api_key.expires_at or _NEVER]
        if identity.claims is not None:
            ends.append(datetime.fromtimestamp(identity.claims.exp, UTC))
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[kind, _digest(presented)] = _Known(identity, min(ends), generation)

    async def _require_key(self, presented: str | None, now: datetime) -> _Cached[ApiKey]:
        found = await self._find(ApiKey, presented, now)
        if found is None:
            raise BadKey
        self._usage.note(found.credential, now)
        return found

    async def _by_mcp_token(self, ctx: OperationContext, presented: Credentials) -> Identity:
        found = await self._find(McpToken, presented.mcp_token, ctx.now)
        if found is None:
            raise BadMcpToken
        # A valid key of another tenant is rejected; an invalid key is ignored.
        key = await self._find(ApiKey, presented.api_key, ctx.now)
        if key is not None and key.tenant.id != found.tenant.id:
            raise OtherTenant
        token = found.credential
        self._usage.note(token, ctx.now)
        if not found.tenant.is_active:
            raise TenantInactive
        caller_id, actor = token.user_id or token.id, f"mcp-token:{token.id}"
        return Identity(found.tenant, actor, caller_id, token.user_id, mcp_token=token)

    async def _find(
        self, kind: type[Credential], presented: str | None, now: datetime
    ) -> _Cached[Credential] | None:
        """Return a credential of a *kind*, and its tenant; None if it is not valid."""
        if presented is None:
            return None
        by_digest = digest(presented)
        found: _Cached[Credential] | None = self._cache.find((kind, by_digest))
        if found is None and is_well_formed(_PREFIXES[kind], presented):
            found = await self._cache.get(
                (kind, by_digest), lambda session: _read(session, kind, by_digest)
            )
        if found is None:
            return None
        expires_at = found.credential.expires_at
        return found if expires_at is None or expires_at > now else None


def _digest(presented: Credentials) -> bytes:
    # No secret is kept in memory. A header contains no line break.
    return sha256(f"{presented.authorization}\n{presented.api_key}".encode()).digest()


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token if scheme.lower() == "bearer" else None


async def _read_admin(session: CatalogSession, admin_id: UUID) -> _CachedAdmin | None:
    # The sessions first: ending one between the two reads moves the epoch, and both are repeated.
    ended = await admins.ended_sessions(session, admin_id)
    admin = await admins.find(session, admin_id)
    return None if admin is None else _CachedAdmin(admin, ended)


async def _read(
    session: CatalogSession, kind: type[Credential], by_digest: str
) -> _Cached[Credential] | None:
    found = await credentials.find(session, kind, by_digest)
    tenant = None if found is None else await tenants.find(session, found.tenant_id)
    return None if found is None or tenant is None else _Cached(found, tenant)
