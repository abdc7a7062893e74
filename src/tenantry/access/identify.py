"""Verify the credentials of a request, and return the tenant or the admin that they identify.

Each credential is verified first (401). Then they are compared with each other and with the level
of access, and the tenant must be active (403). No tenant database is opened here.
"""

from datetime import UTC, datetime
from typing import Generic
from uuid import UUID

import msgspec

from tenantry.access.principal import AdminContext, Role
from tenantry.access.tokens import Claims, Tokens
from tenantry.access.usage import Usage
from tenantry.catalog import admins, credentials, tenants
from tenantry.catalog.admins import Admin
from tenantry.catalog.credentials import ApiKey, Credential, McpToken
from tenantry.catalog.database import Catalog
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import Tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.kit.secrets import digest, is_well_formed

API_KEY_KIND = "tnk_"
MCP_TOKEN_KIND = "tnm_"  # noqa: S105 - a prefix, not a secret
_PREFIXES: dict[type, str] = {ApiKey: API_KEY_KIND, McpToken: MCP_TOKEN_KIND}


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
        claims: The claims of a user's bearer token, if the level of access requires one.
        mcp_token: The McpToken, if one was sent; `claims` and `api_key` are None then.
        api_key: The API key, if it identified the tenant.
    """

    tenant: Tenant
    claims: Claims | None = None
    mcp_token: McpToken | None = None
    api_key: ApiKey | None = None

    @property
    def actor(self) -> str:
        """The caller, as the audit log names them."""
        if self.mcp_token is not None:
            return f"mcp-token:{self.mcp_token.id}"
        if self.claims is not None:
            return f"user:{self.claims.nameid}"
        return f"tenant:{self.tenant.id}"

    @property
    def caller_id(self) -> UUID:
        """The id that rate limits count: of the user, the unbound McpToken, or the API key.

        An McpToken that is bound to a user counts as the user, who could issue many of them.
        """
        if self.mcp_token is not None:
            return self.mcp_token.user_id or self.mcp_token.id
        if self.claims is not None:
            return self.claims.nameid
        assert self.api_key is not None, "one credential has identified the tenant"
        return self.api_key.id

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


class Identifier:
    """Identifies callers by their credentials, with the cached values of the catalog."""

    def __init__(self, catalog: Catalog, tokens: Tokens, usage: Usage) -> None:
        self._cache = catalog.cache
        self._tokens = tokens
        self._usage = usage

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

    async def key(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of an API key.

        Raises:
            BadKey: It is missing or invalid.
            TenantInactive: The tenant is suspended.
        """
        found = await self._require_key(presented.api_key, ctx.now)
        return _active(Identity(found.tenant, api_key=found.credential))

    async def public(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of the McpToken if there is one, else of the API key.

        Raises:
            BadMcpToken, BadKey: The credential is missing or invalid.
            OtherTenant, TenantInactive: The credentials are valid and do not suffice.
        """
        if presented.mcp_token is not None:
            return _active(await self._by_mcp_token(ctx, presented))
        return await self.key(ctx, presented)

    async def tenant(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of the McpToken if there is one, else of the key and bearer token.

        Raises:
            BadMcpToken, BadKey, BadToken: A credential is missing or invalid.
            WrongRole, OtherTenant, TenantInactive: The credentials are valid and do not suffice.
        """
        if presented.mcp_token is not None:
            return _active(await self._by_mcp_token(ctx, presented))
        found = await self._require_key(presented.api_key, ctx.now)
        claims = await self._tokens.verify(presented.authorization, now=ctx.now)
        if claims.role is not Role.TENANT_USER:
            raise WrongRole
        # A token without a tenant matches no tenant: None is never a tenant's id.
        if claims.tenant_id != found.tenant.id:
            raise OtherTenant
        return _active(Identity(found.tenant, claims, api_key=found.credential))

    async def assistant(self, ctx: OperationContext, presented: Credentials) -> Identity:
        """Return the tenant of an McpToken, sent in its own header or as a bearer token.

        Raises:
            BadMcpToken: It is missing or invalid.
            OtherTenant, TenantInactive: It is valid and does not suffice.
        """
        token = presented.mcp_token or _bearer(presented.authorization)
        with_token = Credentials(api_key=presented.api_key, mcp_token=token)
        return _active(await self._by_mcp_token(ctx, with_token))

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
        self._usage.note(found.credential, ctx.now)
        return Identity(found.tenant, mcp_token=found.credential)

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


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token if scheme.lower() == "bearer" else None


def _active(identity: Identity) -> Identity:
    if not identity.tenant.is_active:
        raise TenantInactive
    return identity


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
