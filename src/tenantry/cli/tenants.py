"""``tenantry tenant``: the tenants."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Column

from tenantry.catalog import tenant_list, tenants
from tenantry.catalog.tenants import Tenant
from tenantry.cli import adoption, cloning, deletion, export, moving, options, output, session
from tenantry.cli.commands import new_group
from tenantry.cli.finding import find_tenant
from tenantry.cli.new_tenant import OwnerEmail, OwnerName, read_owner, show_created
from tenantry.cli.prompts import ask_to_confirm
from tenantry.fleet.deletion import TenantActive
from tenantry.fleet.lifecycle import Owner, Provisioned
from tenantry.kit.errors import Invalid
from tenantry.kit.pages import PAGE_SIZE_MAX, Page, Window
from tenantry.schemas.tenants import TenantPage, TenantResponse
from tenantry.settings import Settings
from tenantry.tenant.modules import ALL_KEYS

group = new_group("Manage tenants.")
group.command("adopt")(adoption.adopt)
group.command("undelete")(deletion.undelete)
group.command("purge")(deletion.purge)
group.command("export")(export.export)
group.command("clone")(cloning.clone)
group.command("move")(moving.move)


class NoModules(Invalid):
    """List the modules to activate, or use --none."""


class NoSearch(Invalid):
    """--search does not apply to deleted tenants."""


class TenantDetails(TenantResponse, frozen=True):
    """A tenant, with the name of its server, which is only for operators."""

    server_name: str


@group.command("create")
def create(
    name: str,
    *,
    owner_email: OwnerEmail,
    owner_name: OwnerName = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="The tenant server for its database, by its name in the settings. Default: by "
            "weight, among those with room."
        ),
    ] = None,
    password_stdin: options.PasswordStdin = False,
    as_json: options.Json = False,
) -> None:
    """Create a tenant, its first user and its first API key.

    Without a terminal and without --password-stdin, a password is generated and printed once.
    """
    settings = session.configure()
    new = read_owner(settings, owner_email, owner_name, from_stdin=password_stdin)
    created = asyncio.run(_create(settings, name, new.owner, server))
    show_created(created, new, as_json=as_json)


@group.command("list")
def show_all(
    *,
    search: Annotated[
        str | None,
        typer.Option(
            help="Part of the name, in any case; or the id, the database, or the owner's address "
            "at the creation."
        ),
    ] = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="The deleted tenants that can be undeleted.")
    ] = False,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_MAX,
    as_json: options.Json = False,
) -> None:
    """List tenants, by name."""
    if deleted:
        if search is not None:
            raise NoSearch
        deletion.show_all(Window(page, page_size), as_json=as_json)
        return
    found = asyncio.run(_page(session.configure(), Window(page, page_size), search))
    if as_json:
        output.show_json(TenantPage.of_page(found))
        return
    columns = [
        Column("ID", no_wrap=True),
        Column("Name", overflow="fold"),
        Column("Revision", no_wrap=True),
        Column("State", no_wrap=True),
    ]
    rows = [(one.id, one.name, one.schema_revision, _state(one)) for one in found.items]
    output.show_table(columns, rows)
    output.note_page(found, "tenants")


@group.command("show")
def show(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Show one tenant."""
    _show(asyncio.run(_find(session.configure(), tenant)), as_json=as_json)


@group.command("suspend")
def suspend(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Suspend a tenant: its credentials are rejected, its data are kept."""
    _show(asyncio.run(_update(session.configure(), tenant, is_active=False)), as_json=as_json)


@group.command("read-only")
def read_only(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Make a tenant read-only: it can be read, and writes are rejected.

    Migration runs leave it out until it is activated.
    """
    settings = session.configure()
    changed = asyncio.run(_update(settings, tenant, is_active=True, is_read_only=True))
    _show(changed, as_json=as_json)


@group.command("activate")
def activate(tenant: options.Tenant, *, as_json: options.Json = False) -> None:
    """Migrate a suspended or read-only tenant to the head and activate it."""
    settings = session.configure()
    changed = asyncio.run(_update(settings, tenant, is_active=True, is_read_only=False))
    _show(changed, as_json=as_json)


@group.command("rename")
def rename(
    tenant: options.Tenant,
    name: Annotated[str, typer.Argument(help="The new name.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Rename a tenant."""
    _show(asyncio.run(_update(session.configure(), tenant, name=name)), as_json=as_json)


@group.command("set-modules")
def set_modules(
    tenant: options.Tenant,
    module: Annotated[
        list[str] | None,
        typer.Argument(help=f"The modules to activate: {', '.join(sorted(ALL_KEYS))}."),
    ] = None,
    *,
    none: Annotated[bool, typer.Option("--none", help="Deactivate every module.")] = False,
    as_json: options.Json = False,
) -> None:
    """Set the active modules of a tenant; the others are deactivated."""
    if bool(module) == none:
        raise NoModules
    changed = asyncio.run(_update(session.configure(), tenant, module_keys=module or []))
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
            help="For each process; 0 for the limit of each caller in the settings.",
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Limit the requests with all API keys, and of all users and McpTokens, of a tenant."""
    changed = asyncio.run(
        _update(session.configure(), tenant, requests_per_minute=requests_per_minute)
    )
    _show(changed, as_json=as_json)


@group.command("delete")
def delete(
    tenant: options.Tenant,
    *,
    name: Annotated[
        str | None, typer.Option(help="Its exact name. Without it, the terminal prompts for it.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Delete a suspended tenant. It can be undeleted for TENANTRY_DELETED_DAYS."""
    settings = session.configure()
    found = asyncio.run(_find(settings, tenant))
    if found.is_active:
        raise TenantActive
    if name is None:
        question = f"{deletion.consequence(settings)} Type `{found.name}` to confirm: "
        name = ask_to_confirm(question, option="--name")
    kept_until = asyncio.run(_delete(settings, str(found.id), name))
    output.show_done(deletion.done(kept_until), as_json=as_json)


def _show(tenant: Tenant, *, as_json: bool) -> None:
    if as_json:
        output.show_json(TenantDetails.of(tenant))
    else:
        output.show_attributes(_attributes(tenant))


def _attributes(tenant: Tenant) -> dict[str, object]:
    return {
        "tenant": tenant.name,
        "id": tenant.id,
        "server": tenant.server_name,
        "database": tenant.database_name,
        "revision": tenant.schema_revision,
        "modules": ", ".join(sorted(tenant.modules)),
        "requests per minute": tenant.requests_per_minute or "as in the settings",
        "state": _state(tenant),
        "created": tenant.created_at,
    }


def _state(tenant: Tenant) -> str:
    if not tenant.is_active:
        return "suspended"
    return "read-only" if tenant.is_read_only else "active"


async def _create(settings: Settings, name: str, owner: Owner, server: str | None) -> Provisioned:
    async with session.opened(settings) as services:
        return await services.lifecycle.provision(
            session.context(), name=name, owner=owner, server_name=server
        )


async def _page(settings: Settings, window: Window, search: str | None) -> Page[Tenant]:
    async with session.opened(settings) as services:
        return await tenant_list.page(services.catalog, window, search=search)


async def _find(settings: Settings, id_or_name: str) -> Tenant:
    async with session.opened(settings) as services:
        return await find_tenant(services.catalog, id_or_name)


async def _update(settings: Settings, id_or_name: str, **changes: Any) -> Tenant:
    """Change a tenant; *changes* are arguments of `Lifecycle.update`."""
    async with session.opened(settings) as services:
        found = await find_tenant(services.catalog, id_or_name)
        return await services.lifecycle.update(session.context(), found, **changes)


async def _delete(settings: Settings, id_or_name: str, name: str) -> datetime | None:
    async with session.opened(settings) as services:
        found = await find_tenant(services.catalog, id_or_name)
        return await services.deletion.delete(session.context(), found, name=name)
