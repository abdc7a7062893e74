"""``/api/tenant/mcp-tokens``: the McpTokens of the signed-in user."""

from uuid import UUID

from tenantry.access import credentials as access
from tenantry.catalog import credentials
from tenantry.schemas.base import Nothing
from tenantry.schemas.credentials import (
    IssuedMcpTokenResponse,
    IssueOwnMcpTokenRequest,
    McpTokenList,
)
from tenantry.schemas.people import given
from tenantry.services import Services
from tenantry.tenant import accounts
from tenantry.tenant.entry import PersonContext


async def list_own(ctx: PersonContext, services: Services, _request: Nothing) -> McpTokenList:
    """Tell of the caller's tokens."""
    found = await credentials.tokens(services.catalog, ctx.tenant.id, user_id=ctx.user_id)
    return McpTokenList.of_all(found)


async def issue_own(
    ctx: PersonContext, services: Services, request: IssueOwnMcpTokenRequest
) -> IssuedMcpTokenResponse:
    """Issue a token that acts as the caller."""
    asked = given(request)
    generation = await accounts.confirm_password(
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
        scopes=frozenset(asked["scopes"]) if "scopes" in asked else None,
        expires_at=asked.get("expires_at"),
    )
    return IssuedMcpTokenResponse.of_issued(issued, base_url=services.settings.base_url)


async def revoke_own(
    ctx: PersonContext, services: Services, _request: Nothing, *, token_id: UUID
) -> None:
    """Revoke one of the caller's tokens."""
    await access.revoke_mcp_token(
        ctx, services.catalog, ctx.tenant.id, token_id, user_id=ctx.user_id
    )
