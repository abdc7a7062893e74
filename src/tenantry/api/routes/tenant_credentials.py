"""``/api/admin/tenants/{tenantId}/api-keys`` and ``…/mcp-tokens``."""

from uuid import UUID

from tenantry.access import credentials as access
from tenantry.access.principal import AdminContext
from tenantry.catalog import credentials, tenants
from tenantry.schemas.base import Nothing
from tenantry.schemas.credentials import (
    ApiKeyList,
    IssueApiKeyRequest,
    IssuedApiKeyResponse,
    IssuedMcpTokenResponse,
    IssueMcpTokenRequest,
    McpTokenList,
    RotateApiKeyRequest,
)
from tenantry.schemas.people import given
from tenantry.services import Services
from tenantry.tenant import tokens


async def list_keys(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> ApiKeyList:
    """Tell of a tenant's keys."""
    tenant = await tenants.get(services.catalog, tenant_id)
    found = await credentials.keys(services.catalog, tenant.id)
    return ApiKeyList.of_all(found)


async def issue_key(
    ctx: AdminContext, services: Services, request: IssueApiKeyRequest, *, tenant_id: UUID
) -> IssuedApiKeyResponse:
    """Issue one more key of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    issued = await access.issue_key(
        ctx, services.catalog, tenant.id, expires_at=given(request).get("expires_at")
    )
    return IssuedApiKeyResponse.of(issued)


async def rotate_key(
    ctx: AdminContext,
    services: Services,
    request: RotateApiKeyRequest,
    *,
    tenant_id: UUID,
    key_id: UUID,
) -> IssuedApiKeyResponse:
    """Issue a key in place of another, which lives on for a while."""
    seconds = given(request).get("grace_period_seconds", access.GRACE_SECONDS_DEFAULT)
    issued = await access.rotate_key(
        ctx, services.catalog, tenant_id, key_id, grace_seconds=seconds
    )
    return IssuedApiKeyResponse.of(issued)


async def revoke_key(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, key_id: UUID
) -> None:
    """Revoke a key of a tenant."""
    await access.revoke_key(ctx, services.catalog, tenant_id, key_id)


async def list_tokens(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> McpTokenList:
    """Tell of a tenant's McpTokens."""
    tenant = await tenants.get(services.catalog, tenant_id)
    found = await credentials.tokens(services.catalog, tenant.id)
    return McpTokenList.of_all(found)


async def issue_token(
    ctx: AdminContext, services: Services, request: IssueMcpTokenRequest, *, tenant_id: UUID
) -> IssuedMcpTokenResponse:
    """Issue an McpToken of a tenant, bound to one of its users or to none."""
    tenant = await tenants.get(services.catalog, tenant_id)
    asked = given(request)
    issued = await tokens.issue(
        ctx,
        services.catalog,
        await services.databases.open(tenant),
        tenant.id,
        name=request.name,
        user_id=asked.get("user_id"),
        scopes=frozenset(asked["scopes"]) if "scopes" in asked else None,
        expires_at=asked.get("expires_at"),
    )
    return IssuedMcpTokenResponse.of_issued(issued, base_url=services.settings.base_url)


async def revoke_token(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, token_id: UUID
) -> None:
    """Revoke an McpToken of a tenant."""
    await access.revoke_mcp_token(ctx, services.catalog, tenant_id, token_id)
