"""``tenantry tenant``: the customers."""

import asyncio
from typing import Annotated

import typer
from rich.table import Column

from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.cli import adoption, options, output, session
from tenantry.cli.commands import new_group
from tenantry.cli.prompts import ask_name
from tenantry.cli.secrets import read_password
from tenantry.fleet.lifecycle import Owner, Provisioned
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_SIZE_MAX, Page, Window
from tenantry.schemas.tenants import CreatedTenantResponse, TenantPage, TenantResponse
from tenantry.settings import SERVER_DEFAULT, Settings

group = new_group("Manage tenants.")
group.command("adopt")(adoption.adopt)


@group.command("create")
def create(
    name: str,
    *,
    owner_email: Annotated[str, typer.Option(help="The e-mail address of its first user.")],
    owner_name: Annotated[str, typer.Option(help="The full name of its first user.")],
    server: Annotated[
        str, typer.Option(help="The tenant server for its database, by its name in the settings.")
    ] = SERVER_DEFAULT,
    password_stdin: options.PasswordStdin = False,
    as_json: options.Json = False,
) -> None:
    """Create a tenant: its database, its first user and its first API key."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    owner = Owner(email=owner_email, full_name=owner_name, password=password)
    made = asyncio.run(_create(settings, name, owner, server))
    if as_json:
        output.show_json(CreatedTenantResponse.of_provisioned(made))
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
        output.show_json(TenantPage.of_page(found))
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
def show(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Show one tenant."""
    _show(asyncio.run(_find(session.configure(), tenant)), as_json=as_json)


@group.command("suspend")
def suspend(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Switch a tenant off: its credentials are refused, and its data stay."""
    changed = asyncio.run(_set_active(session.configure(), tenant, is_active=False))
    _show(changed, as_json=as_json)


@group.command("activate")
def activate(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Bring a tenant to the newest revision, and switch it on again."""
    changed = asyncio.run(_set_active(session.configure(), tenant, is_active=True))
    _show(changed, as_json=as_json)


@group.command("limit")
def limit(
    tenant: options.Tenant,
    *,
    requests_per_minute: Annotated[
        int,
        typer.Option(
            min=0,
            max=tenants.REQUESTS_PER_MINUTE_MAX,
            help="Of each credential, to each process; 0 for the limit of the settings.",
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Limit the requests of a tenant's credentials."""
    changed = asyncio.run(_limit(session.configure(), tenant, requests_per_minute))
    _show(changed, as_json=as_json)


@group.command("delete")
def delete(
    tenant: options.Tenant,
    *,
    name: Annotated[
        str | None, typer.Option(help="Its exact name; a terminal is asked for it otherwise.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Delete a suspended tenant for ever, with its database."""
    settings = session.configure()
    if name is None:
        found = asyncio.run(_find(settings, tenant))
        tenant = str(found.id)
        name = ask_name(f"Type `{found.name}` to delete it and its database for ever: ")
    asyncio.run(_delete(settings, tenant, name))
    output.show_done("The tenant was deleted.", as_json=as_json)


async def find(catalog: Catalog, id_or_name: str) -> Tenant:
    """Return the tenant with this id or name.

    Raises:
        TenantNotFound: There is none.
    """
    tenant_id = parse_id(id_or_name)
    found = None if tenant_id is None else await tenants.find(catalog, tenant_id)
    return found or await tenants.get_by_name(catalog, id_or_name)


def _show(tenant: Tenant, *, as_json: bool) -> None:
    if as_json:
        output.show_json(TenantResponse.of(tenant))
    else:
        output.show_facts(_facts(tenant))


def _facts(tenant: Tenant) -> dict[str, object]:
    return {
        "tenant": tenant.name,
        "id": tenant.id,
        "database": tenant.database_name,
        "revision": tenant.schema_revision,
        "modules": ", ".join(sorted(tenant.modules)),
        "requests per minute": tenant.requests_per_minute or "as in the settings",
        "active": tenant.is_active,
        "created": tenant.created_at,
    }


async def _create(settings: Settings, name: str, owner: Owner, server: str) -> Provisioned:
    async with session.opened(settings) as services:
        return await services.lifecycle.provision(
            session.context(), name=name, owner=owner, server_name=server
        )


async def _page(settings: Settings, window: Window, search: str | None) -> Page[Tenant]:
    async with session.opened(settings) as services:
        return await tenants.page(services.catalog, window, search=search)


async def _find(settings: Settings, id_or_name: str) -> Tenant:
    async with session.opened(settings) as services:
        return await find(services.catalog, id_or_name)


async def _set_active(settings: Settings, id_or_name: str, *, is_active: bool) -> Tenant:
    async with session.opened(settings) as services:
        found = await find(services.catalog, id_or_name)
        return await services.lifecycle.update(session.context(), found, is_active=is_active)


async def _limit(settings: Settings, id_or_name: str, requests_per_minute: int) -> Tenant:
    async with session.opened(settings) as services:
        found = await find(services.catalog, id_or_name)
        return await services.lifecycle.update(
            session.context(), found, requests_per_minute=requests_per_minute
        )


async def _delete(settings: Settings, id_or_name: str, name: str) -> None:
    async with session.opened(settings) as services:
        found = await find(services.catalog, id_or_name)
        await services.lifecycle.delete(session.context(), found, name=name)
