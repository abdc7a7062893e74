"""``/api/tenant/mcp-tokens``: the McpTokens of the signed-in user."""

from uuid import UUID

from tenantry.access import credentials as access
from tenantry.api.access_levels import SIGNED_IN
from tenantry.api.endpoints import (
    CONFLICT,
    CREATED,
    HASHING_SECONDS,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    endpoint,
)
from tenantry.catalog import credentials
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.credentials import (
    IssuedMcpTokenResponse,
    IssueOwnMcpTokenRequest,
    McpTokenList,
)
from tenantry.services import Services
from tenantry.tenant import modules, profile
from tenantry.tenant.entry import PersonContext


@endpoint("GET", "/api/tenant/mcp-tokens", SIGNED_IN, module=modules.MCP)
async def list_own(ctx: PersonContext, services: Services, _request: Nothing) -> McpTokenList:
    """List your McpTokens."""
    found = await credentials.tokens(services.catalog, ctx.tenant.id, user_id=ctx.user_id)
    return McpTokenList.of_all(found)


@endpoint(
    "POST",
    "/api/tenant/mcp-tokens",
    SIGNED_IN,
    status=CREATED,
    errors=[NOT_FOUND, CONFLICT, TOO_MANY_REQUESTS],
    module=modules.MCP,
    seconds_more=HASHING_SECONDS,
)
async def issue_own(
    ctx: PersonContext, services: Services, request: IssueOwnMcpTokenRequest
) -> IssuedMcpTokenResponse:
    """Issue an McpToken that acts as you."""
    sent = sent_members(request)
    generation = await profile.confirm_password(
        ctx,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        password=request.password,
    )
    issued = await access.issue_mcp_token(
        ctx,
        services.catalog,
        ctx.tenant.id,
        name=request.name,
        user_id=ctx.user_id,
        user_generation=generation,
        scopes=frozenset(sent["scopes"]) if "scopes" in sent else None,
        expires_at=sent.get("expires_at"),
    )
    return IssuedMcpTokenResponse.of_issued(issued, base_url=services.settings.base_url)


@endpoint(
    "DELETE",
    "/api/tenant/mcp-tokens/{tokenId}",
    SIGNED_IN,
    message="The McpToken was revoked.",
    module=modules.MCP,
)
async def revoke_own(
    ctx: PersonContext, services: Services, _request: Nothing, *, token_id: UUID
) -> None:
    """Revoke one of your McpTokens."""
    await access.revoke_mcp_token(
        ctx, services.catalog, ctx.tenant.id, token_id, user_id=ctx.user_id
    )
