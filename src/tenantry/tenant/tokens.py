"""McpTokens of a tenant that are bound to one of its users."""

from datetime import datetime
from uuid import UUID

from tenantry.access import credentials
from tenantry.access.credentials import IssuedMcpToken
from tenantry.catalog.database import Catalog
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid
from tenantry.tenant import users
from tenantry.tenant.databases import TenantDatabase


class UnknownUser(Invalid):
    """`userId` is no user of this tenant."""


async def issue(
    ctx: OperationContext,
    catalog: Catalog,
    database: TenantDatabase,
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
    user = None if user_id is None else await users.find(database, user_id)
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
