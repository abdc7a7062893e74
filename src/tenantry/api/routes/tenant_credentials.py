"""``/api/admin/tenants/{tenantId}/api-keys`` and ``…/mcp-tokens``."""

from uuid import UUID

from tenantry.access import credentials as access
from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import creates, endpoint
from tenantry.catalog import credentials, tenants
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.credentials import (
    ApiKeyList,
    IssueApiKeyRequest,
    IssuedApiKeyResponse,
    IssuedMcpTokenResponse,
    IssueMcpTokenRequest,
    McpTokenList,
    RotateApiKeyRequest,
)
from tenantry.services import Services
from tenantry.tenant import tokens


@endpoint("GET", "/api/admin/tenants/{tenantId}/api-keys", ADMIN)
async def list_keys(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> ApiKeyList:
    """List the API keys of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    return ApiKeyList.of_all(await credentials.keys(services.catalog, tenant.id))


@creates("/api/admin/tenants/{tenantId}/api-keys", ADMIN)
async def issue_key(
    ctx: AdminContext, services: Services, request: IssueApiKeyRequest, *, tenant_id: UUID
) -> IssuedApiKeyResponse:
    """Issue an API key of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    issued = await access.issue_key(
        ctx, services.catalog, tenant.id, expires_at=sent_members(request).get("expires_at")
    )
    return IssuedApiKeyResponse.of(issued)


@creates("/api/admin/tenants/{tenantId}/api-keys/{keyId}/rotate", ADMIN)
async def rotate_key(
    ctx: AdminContext,
    services: Services,
    request: RotateApiKeyRequest,
    *,
    tenant_id: UUID,
    key_id: UUID,
) -> IssuedApiKeyResponse:
    """Rotate an API key of a tenant; if it has an end, its successor has the same."""
    seconds = sent_members(request).get("grace_period_seconds", access.GRACE_SECONDS_DEFAULT)
    issued = await access.rotate_key(
        ctx, services.catalog, tenant_id, key_id, grace_seconds=seconds
    )
    return IssuedApiKeyResponse.of(issued)


@endpoint(
    "DELETE",
    "/api/admin/tenants/{tenantId}/api-keys/{keyId}",
    ADMIN,
    message="The API key was revoked.",
)
async def revoke_key(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, key_id: UUID
) -> None:
    """Revoke an API key of a tenant."""
    await access.revoke_key(ctx, services.catalog, tenant_id, key_id)


@endpoint("GET", "/api/admin/tenants/{tenantId}/mcp-tokens", ADMIN)
async def list_tokens(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> McpTokenList:
    """List the McpTokens of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    return McpTokenList.of_all(await credentials.tokens(services.catalog, tenant.id))


@creates("/api/admin/tenants/{tenantId}/mcp-tokens", ADMIN)
async def issue_token(
    ctx: AdminContext, services: Services, request: IssueMcpTokenRequest, *, tenant_id: UUID
) -> IssuedMcpTokenResponse:
    """Issue an McpToken of a tenant."""
    tenant = await tenants.get(services.catalog, tenant_id)
    sent = sent_members(request)
    issued = await tokens.issue(
        ctx,
        services.catalog,
        await services.databases.open(tenant, writes=False),
        tenant.id,
        name=request.name,
        user_id=sent.get("user_id"),
        scopes=frozenset(sent["scopes"]) if "scopes" in sent else None,
        expires_at=sent.get("expires_at"),
    )
    return IssuedMcpTokenResponse.of_issued(issued, base_url=services.settings.base_url)


@endpoint(
    "DELETE",
    "/api/admin/tenants/{tenantId}/mcp-tokens/{tokenId}",
    ADMIN,
    message="The McpToken was revoked.",
)
async def revoke_token(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, token_id: UUID
) -> None:
    """Revoke an McpToken of a tenant."""
    await access.revoke_mcp_token(ctx, services.catalog, tenant_id, token_id)
