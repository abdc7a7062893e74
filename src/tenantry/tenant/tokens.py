"""McpTokens of a tenant that are bound to one of its users."""

from datetime import datetime
from uuid import UUID

from tenantry.access import credentials
from tenantry.access.credentials import IssuedMcpToken
from tenantry.catalog import credentials as stored
from tenantry.catalog.database import Catalog
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid
from tenantry.tenant import users
from tenantry.tenant.databases import TenantSession


class UnknownUser(Invalid):
    """`userId` is no user of this tenant."""


async def issue(
    ctx: OperationContext,
    catalog: Catalog,
    session: TenantSession,
    tenant_id: UUID,
    *,
    name: str,
    user_id: UUID | None,
    scopes: frozenset[str] | None,
    expires_at: datetime | None,
) -> IssuedMcpToken:
    """Return a new McpToken of a tenant; see `access.credentials.issue_mcp_token`.

    Raises:
        UnknownUser: *user_id* is no user of the tenant.
        BadText, BadScopes, BadExpiry: A rule is broken.
    """
    user = None if user_id is None else await users.find(session, user_id)
    if user_id is not None and user is None:
        raise UnknownUser
    return await credentials.issue_mcp_token(
        ctx,
        catalog,
        tenant_id,
        name=name,
        user_id=user_id,
        user_generation=None if user is None else user.token_generation,
        scopes=scopes,
        expires_at=expires_at,
    )


async def remove_all(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, user_id: UUID
) -> None:
    """Remove the McpTokens of a user who is deleted. Call it last before that is committed."""
    if await stored.tokens(catalog, tenant_id, user_id=user_id):
        async with catalog.change(ctx, "mcp-token.end", user_id, tenant_id=tenant_id) as session:
            await stored.remove_tokens_of_user(session, tenant_id, user_id)


async def remove_dead(
    ctx: OperationContext, catalog: Catalog, tenant_id: UUID, user_id: UUID, *, generation: int
) -> None:
    """Remove the McpTokens of a user that a change of the user has ended.

    They are dead by their generation alone; this takes them off the lists. Call it last before
    the change is committed.
    """
    found = await stored.tokens(catalog, tenant_id, user_id=user_id)
    if any(token.user_generation != generation for token in found):
        async with catalog.change(ctx, "mcp-token.end", user_id, tenant_id=tenant_id) as session:
            await stored.remove_dead_tokens(session, tenant_id, user_id, generation=generation)
