"""Record what changes inside a tenant: by a person, by an McpToken, by any door."""

from collections.abc import Mapping, Sequence

from tenantry.catalog.database import Catalog
from tenantry.tenant.entry import TenantContext


async def note(
    ctx: TenantContext,
    catalog: Catalog,
    action: str,
    target: object,
    changes: Sequence[Mapping[str, object]] = (),
) -> None:
    """Audit a change inside the tenant; see `Catalog.note` for when to call it.

    Args:
        ctx: Who changes.
        catalog: Holds the log.
        action: What is done, as ``noun.verb``.
        target: To what: an id.
        changes: Which fields changed.

    Raises:
        DatabaseUnavailable: The entry may not have been written: do not commit.
    """
    await catalog.note(ctx, action, target, tenant_id=ctx.tenant.id, changes=changes)
