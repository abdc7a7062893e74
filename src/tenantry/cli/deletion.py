"""``tenantry tenant list --deleted``, ``undelete`` and ``purge``: deleted tenants."""

import contextlib
from datetime import datetime
from typing import Annotated

import typer

from tenantry.catalog import deleted_tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.tenants import Tenant
from tenantry.cli import options, session
from tenantry.cli.printing import output
from tenantry.cli.prompts import confirmation
from tenantry.kit.ids import parse_id
from tenantry.schemas.tenants import TenantResponse
from tenantry.settings import Settings

Deleted = Annotated[
    str, typer.Argument(metavar="TENANT", help="The deleted tenant's id, or its exact name.")
]


async def undelete(
    tenant: Deleted,
    *,
    name: Annotated[
        str | None, typer.Option(help="A new name, if another tenant has its name by now.")
    ] = None,
) -> None:
    """Undo the deletion of a tenant; it is then suspended, with its keys and McpTokens."""
    async with session.opened() as services:
        found = await _get(services.catalog, tenant)
        restored = await services.deletion.undelete(session.context(), found, name=name)
    if not output.shown_as_json(TenantResponse.of(restored)):
        output.show_line(
            f"The tenant {restored.name} is suspended: `tenantry tenant activate` migrates and "
            "activates it."
        )


async def purge(tenant: Deleted, *, name: options.ExactName = None) -> None:
    """Remove a deleted tenant and its database now. This cannot be undone."""
    settings = session.configure()
    async with session.opened(settings) as services:
        await services.job_worker.reap()  # what a purge that was killed has left is removed, too
        found = await _get(services.catalog, tenant)
    question = (
        "This removes the tenant and its database and cannot be undone. "
        f"Type `{found.name}` to confirm: "
    )
    name = confirmation(name, question, option="--name")
    async with session.opened(settings) as services:
        found = await _get(services.catalog, str(found.id))
        await services.deletion.purge(session.context(), found, name=name)
    output.show_done("The tenant was purged.")


def consequence(settings: Settings) -> str:
    """Return what the deletion of a tenant means with these settings."""
    if settings.deleted_days:
        return f"The tenant can be undeleted for {settings.deleted_days} days."
    return "This deletes the tenant and its database and cannot be undone."


def done(kept_until: datetime | None) -> str:
    """Return the result of a deletion."""
    if kept_until is None:
        return "The tenant was deleted."
    return f"The tenant was deleted. It can be undeleted until {kept_until:%Y-%m-%d %H:%M} UTC."


async def _get(catalog: Catalog, id_or_name: str) -> Tenant:
    tenant_id = parse_id(id_or_name)
    if tenant_id is not None:
        with contextlib.suppress(DeletedTenantNotFound):
            return await deleted_tenants.get(catalog, tenant_id)
    return await deleted_tenants.get_by_name(catalog, id_or_name)
