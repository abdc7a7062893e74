"""What an McpToken changes in a tenant stands in the audit log, whichever door it came by.

What people change in their own tenant does not: the log is for those who run the service,
and they have handed the token out.
"""

from tenantry.catalog.database import Catalog
from tenantry.tenant.entry import TenantContext


async def note(ctx: TenantContext, catalog: Catalog, action: str, target: object) -> None:
    """Audit a change inside the tenant, if an McpToken makes it.

    Call it last before the change is committed: then it is not noted again when the change is
    tried again, and nothing is noted that was refused. No transaction spans two databases, and
    of a log it is better that it tells of a change that failed than that it is silent on one
    that did not.

    Args:
        ctx: Who changes.
        catalog: That holds the log.
        action: What is done, as ``noun.verb``.
        target: To what: an id.
    """
    if ctx.identity.mcp_token is not None:
        await catalog.note(ctx, action, target)
