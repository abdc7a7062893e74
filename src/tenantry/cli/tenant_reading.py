"""``tenantry tenant list`` and ``show``. They import only what reads the catalog."""

from datetime import timedelta
from typing import Annotated

import typer

from tenantry.catalog import deleted_tenants, tenant_list
from tenantry.catalog.tenants import Tenant
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import read_tenant
from tenantry.cli.printing import output
from tenantry.kit.pages import PAGE_SIZE_MAX, Window
from tenantry.kit.sizes import shown_size
from tenantry.schemas.tenants import DeletedTenantPage, TenantPage, TenantResponse

group = new_group("Manage tenants.")


class TenantDetails(TenantResponse, frozen=True):
    """A tenant, with the name of its server, which is only for operators."""

    server_name: str


@group.command("list")
async def show_all(
    *,
    search: Annotated[
        str | None,
        typer.Option(
            help="Part of the name, in any case; or the id, the database, or the owner's address "
            "at the creation."
        ),
    ] = None,
    where: options.Where = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="The deleted tenants that can be undeleted.")
    ] = False,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_MAX,
) -> None:
    """List tenants, by name."""
    if deleted:
        if search is not None or where is not None:
            raise Misuse("--search and --where do not apply to deleted tenants.")
        await _show_deleted(Window(page, page_size))
        return
    async with session.reading() as opened:
        found = await tenant_list.page(
            opened.catalog, Window(page, page_size), search=search, where=where
        )
    columns = [
        output.unwrapped("ID"),
        "Name",
        output.unwrapped("Revision"),
        output.unwrapped("State"),
    ]
    rows = [(one.id, one.name, one.schema_revision, _state(one)) for one in found.items]
    output.show_page(TenantPage.of_page(found), found, "tenants", columns, rows)


@group.command("show")
async def show(tenant: options.Tenant) -> None:
    """Show one tenant."""
    async with read_tenant(tenant) as (_, found):
        show_tenant(found)


async def _show_deleted(window: Window) -> None:
    """Print one page of the deleted tenants."""
    settings = session.configure()
    async with session.reading(settings) as opened:
        found = await deleted_tenants.page(opened.catalog, window)
        page = DeletedTenantPage.of_deleted(found, timedelta(days=settings.deleted_days))
    columns = [
        output.unwrapped("ID"),
        "Name",
        output.unwrapped("Deleted"),
        output.unwrapped("Purged after"),
    ]
    rows = [(one.id, one.name, one.deleted_at, one.purged_after) for one in page.items]
    output.show_list(page, columns, rows)


def show_tenant(tenant: Tenant) -> None:
    """Print a tenant."""
    if output.shown_as_json(TenantDetails.of(tenant)):
        return
    output.show_attributes(
        {
            **place_of(tenant),
            "modules": ", ".join(sorted(tenant.modules)),
            "labels": " ".join(f"{key}={value}" for key, value in tenant.labels.items()),
            "requests per minute": tenant.requests_per_minute or "as in the settings",
            "size limit": shown_size(tenant.size_bytes_max)
            if tenant.size_bytes_max
            else "as in the settings",
            "state": _state(tenant),
            "created": tenant.created_at,
        }
    )


def place_of(tenant: Tenant) -> dict[str, object]:
    """Return which tenant it is, and where: the first attributes of what is printed."""
    return {
        "tenant": tenant.name,
        "id": tenant.id,
        "server": tenant.server_name,
        "database": tenant.database_name,
        "revision": tenant.schema_revision,
    }


def _state(tenant: Tenant) -> str:
    attached = "attached, " if tenant.is_attached else ""
    if not tenant.is_active:
        return f"{attached}suspended"
    return f"{attached}{'read-only' if tenant.is_read_only else 'active'}"
