"""``tenantry tenant``: the customers."""

import asyncio
from typing import Annotated

import typer
from rich.table import Column

from tenantry.api.schemas.tenants import CreatedTenantResponse, TenantPage, TenantResponse
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.cli import options, output, session
from tenantry.cli.secrets import read_password
from tenantry.fleet.lifecycle import Owner, Provisioned
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_SIZE_MAX, Page, Window
from tenantry.settings import Settings

group = typer.Typer(help="The tenants, each with a database of its own.", no_args_is_help=True)


@group.command("create")
def create(
    name: str,
    *,
    owner_email: Annotated[str, typer.Option(help="The e-mail address of its first user.")],
    owner_name: Annotated[str, typer.Option(help="The full name of its first user.")],
    password_stdin: options.PasswordStdin = False,
    as_json: options.Json = False,
) -> None:
    """Create a tenant: its database, its first user and its first API key."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    owner = Owner(email=owner_email, full_name=owner_name, password=password)
    made = asyncio.run(_create(settings, name, owner))
    if as_json:
        output.show_json(CreatedTenantResponse.of(made))
        return
    facts = {"owner": made.owner.email, "API key": made.key.secret}
    output.show_facts({**_facts(made.tenant), **facts})
    output.note("The API key is shown only now.")


@group.command("list")
def show_all(
    *,
    search: Annotated[str | None, typer.Option(help="Part of the name, in any case.")] = None,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_MAX,
    as_json: options.Json = False,
) -> None:
    """List tenants, by name."""
    found = asyncio.run(_page(session.configure(), Window(page, page_size), search))
    if as_json:
        output.show_json(TenantPage.of(found))
        return
    columns = [
        Column("ID", no_wrap=True),
        Column("Name", overflow="fold"),
        Column("Revision", no_wrap=True),
        Column("Active", no_wrap=True),
    ]
    rows = [(one.id, one.name, one.schema_revision, one.is_active) for one in found.items]
    output.show_table(columns, rows)
    output.note_page(found, "tenants")


@group.command("show")
def show(
    tenant: Annotated[str, typer.Argument(help="Its id or its name.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Show one tenant."""
    found = asyncio.run(_find(session.configure(), tenant))
    if as_json:
        output.show_json(TenantResponse.of(found))
    else:
        output.show_facts(_facts(found))


async def find(catalog: Catalog, id_or_name: str) -> Tenant:
    """Return the tenant with this id or name.

    Raises:
        TenantNotFound: There is none.
    """
    tenant_id = parse_id(id_or_name)
    found = None if tenant_id is None else await tenants.find(catalog, tenant_id)
    return found or await tenants.get_by_name(catalog, id_or_name)


def _facts(tenant: Tenant) -> dict[str, object]:
    return {
        "tenant": tenant.name,
        "id": tenant.id,
        "database": tenant.database_name,
        "revision": tenant.schema_revision,
        "modules": ", ".join(sorted(tenant.modules)),
        "active": tenant.is_active,
        "created": tenant.created_at,
    }


async def _create(settings: Settings, name: str, owner: Owner) -> Provisioned:
    async with session.opened(settings) as services:
        return await services.lifecycle.provision(
            session.context(), name=name, owner=owner, module_keys=None
        )


async def _page(settings: Settings, window: Window, search: str | None) -> Page[Tenant]:
    async with session.opened(settings) as services:
        return await tenants.page(services.catalog, window, search=search)


async def _find(settings: Settings, id_or_name: str) -> Tenant:
    async with session.opened(settings) as services:
        return await find(services.catalog, id_or_name)
