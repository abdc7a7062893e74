"""``/api/tenant/api-keys`` and ``…/all-mcp-tokens``: credentials of a tenant, for its owners."""

from uuid import UUID

from tenantry.access import credentials as access
from tenantry.api.access_levels import OWNER
from tenantry.api.endpoints import creates, endpoint
from tenantry.catalog import credentials
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.credentials import (
    ApiKeyList,
    IssueApiKeyRequest,
    IssuedApiKeyResponse,
    McpTokenList,
    RotateApiKeyRequest,
)
from tenantry.services import Services
from tenantry.tenant.entry import PersonContext


@endpoint("GET", "/api/tenant/api-keys", OWNER)
async def list_keys(ctx: PersonContext, services: Services, _request: Nothing) -> ApiKeyList:
    """List the API keys of your tenant."""
    return ApiKeyList.of_all(await credentials.keys(services.catalog, ctx.tenant.id))


@creates("/api/tenant/api-keys", OWNER)
async def issue_key(
    ctx: PersonContext, services: Services, request: IssueApiKeyRequest
) -> IssuedApiKeyResponse:
    """Issue an API key of your tenant."""
    expires_at = sent_members(request).get("expires_at")
    issued = await access.issue_key(ctx, services.catalog, ctx.tenant.id, expires_at=expires_at)
    return IssuedApiKeyResponse.of(issued)


@creates("/api/tenant/api-keys/{keyId}/rotate", OWNER)
async def rotate_key(
    ctx: PersonContext, services: Services, request: RotateApiKeyRequest, *, key_id: UUID
) -> IssuedApiKeyResponse:
    """Rotate an API key of your tenant; if it has an end, its successor has the same."""
    seconds = sent_members(request).get("grace_period_seconds", access.GRACE_SECONDS_DEFAULT)
    issued = await access.rotate_key(
        ctx, services.catalog, ctx.tenant.id, key_id, grace_seconds=seconds
    )
    return IssuedApiKeyResponse.of(issued)


@endpoint("DELETE", "/api/tenant/api-keys/{keyId}", OWNER, message="The API key was revoked.")
async def revoke_key(
    ctx: PersonContext, services: Services, _request: Nothing, *, key_id: UUID
) -> None:
    """Revoke an API key of your tenant."""
    await access.revoke_key(ctx, services.catalog, ctx.tenant.id, key_id)


@endpoint("GET", "/api/tenant/all-mcp-tokens", OWNER)
async def list_tokens(ctx: PersonContext, services: Services, _request: Nothing) -> McpTokenList:
    """List the McpTokens of your tenant, of all users."""
    return McpTokenList.of_all(await credentials.tokens(services.catalog, ctx.tenant.id))


@endpoint(
    "DELETE", "/api/tenant/all-mcp-tokens/{tokenId}", OWNER, message="The McpToken was revoked."
)
async def revoke_token(
    ctx: PersonContext, services: Services, _request: Nothing, *, token_id: UUID
) -> None:
    """Revoke an McpToken of your tenant, whoever uses it."""
    await access.revoke_mcp_token(ctx, services.catalog, ctx.tenant.id, token_id)
