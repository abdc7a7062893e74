"""``tenantry tenant``: the tenants."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tenantry.catalog import tenants
from tenantry.catalog.labels import labels_after
from tenantry.cli import (
    adoption,
    attaching,
    cloning,
    deletion,
    labels,
    moving,
    options,
    session,
    tenant_reading,
)
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import opened_tenant, read_tenant
from tenantry.cli.new_tenant import OwnerEmail, OwnerName, read_owner, show_created
from tenantry.cli.printing import output
from tenantry.cli.prompts import confirmation
from tenantry.cli.tenant_reading import show_tenant
from tenantry.db.copying.row_formats import RowFormat
from tenantry.fleet.deletion import TenantActive
from tenantry.fleet.lifecycle import BadSizeLimit
from tenantry.kit.sizes import bytes_of
from tenantry.tenant.modules import ALL_KEYS

group = new_group("Manage tenants.", reading=tenant_reading.group)
group.command("adopt")(adoption.adopt)
group.command("attach")(attaching.attach)
group.command("detach")(attaching.detach)
group.command("undelete")(deletion.undelete)
group.command("purge")(deletion.purge)
group.command("clone")(cloning.clone)
group.command("move")(moving.move)
group.command("label")(labels.label)


@group.command("create")
async def create(
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
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label of the tenant. Can be repeated."),
    ] = None,
    password_stdin: options.PasswordStdin = False,
) -> None:
    """Create a tenant, its first user and its first API key.

    Without a terminal and without --password-stdin, a password is generated and printed once.
    """
    settings = session.configure()
    owner, generated = read_owner(settings, owner_email, owner_name, from_stdin=password_stdin)
    async with session.opened(settings) as services:
        await services.job_worker.reap()  # a creation that was killed may hold the name
        created = await services.lifecycle.provision(
            session.context(),
            name=name,
            owner=owner,
            server_name=server,
            labels=labels_after({}, label or []),
        )
    show_created(created, generated)


@group.command("suspend")
async def suspend(tenant: options.Tenant) -> None:
    """Suspend a tenant: its credentials are rejected, its data are kept."""
    await _update(tenant, is_active=False)


@group.command("read-only")
async def read_only(tenant: options.Tenant) -> None:
    """Make a tenant read-only: it can be read, and writes are rejected.

    Migration runs leave it out until it is activated.
    """
    await _update(tenant, is_active=True, is_read_only=True)


@group.command("activate")
async def activate(tenant: options.Tenant) -> None:
    """Migrate a suspended or read-only tenant to the head and activate it."""
    await _update(tenant, is_active=True, is_read_only=False)


@group.command("rename")
async def rename(
    tenant: options.Tenant, name: Annotated[str, typer.Argument(help="The new name.")]
) -> None:
    """Rename a tenant."""
    await _update(tenant, name=name)


@group.command("set-modules")
async def set_modules(
    tenant: options.Tenant,
    module: Annotated[
        list[str] | None,
        typer.Argument(help=f"The modules to activate: {', '.join(sorted(ALL_KEYS))}."),
    ] = None,
    *,
    none: Annotated[bool, typer.Option("--none", help="Deactivate every module.")] = False,
) -> None:
    """Set the active modules of a tenant; the others are deactivated."""
    if bool(module) == none:
        raise Misuse("List the modules to activate, or use --none.")
    await _update(tenant, module_keys=module or [])


@group.command("limit")
async def limit(
    tenant: options.Tenant,
    *,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=tenants.REQUESTS_PER_MINUTE_MAX,
            help="For each process; 0 for the limit of each caller in the settings.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Of its database: 10GB; 0 for the limit in the settings."),
    ] = None,
) -> None:
    """Limit the requests of a tenant, or the size of its database.

    The requests are those with all API keys, and those of all users and McpTokens. Beyond the
    size, content is rejected with 507; posts can be deleted.
    """
    if requests_per_minute is None and size is None:
        raise Misuse("Give --requests-per-minute, --size, or both.")
    await _update(
        tenant,
        requests_per_minute=requests_per_minute,
        size_bytes_max=None if size is None else _bytes_of(size),
    )


@group.command("delete")
async def delete(tenant: options.Tenant, *, name: options.ExactName = None) -> None:
    """Delete a suspended tenant. It can be undeleted for TENANTRY_DELETED_DAYS."""
    settings = session.configure()
    async with read_tenant(tenant, settings) as (_, found):
        pass
    if found.is_active:
        raise TenantActive
    question = f"{deletion.consequence(settings)} Type `{found.name}` to confirm: "
    name = confirmation(name, question, option="--name")
    async with opened_tenant(str(found.id), settings) as (services, found):
        kept_until = await services.deletion.delete(session.context(), found, name=name)
    output.show_done(deletion.done(kept_until))


@group.command("export")
async def export(
    tenant: options.Tenant,
    folder: Annotated[Path, typer.Argument(help="The new folder for the files.")],
    *,
    row_format: Annotated[
        RowFormat, typer.Option("--format", help="The format of the rows.")
    ] = RowFormat.JSON_LINES,
) -> None:
    """Export every table of a tenant as JSON lines or CSV, with the schema.

    Password hashes and sessions are left out.
    """
    async with opened_tenant(tenant) as (services, found):
        manifest = await services.export.write(
            session.context(), found, folder, row_format=row_format
        )
    columns = ["Table", output.number("Rows"), "File"]
    rows = [(one.name, f"{one.rows:,}", folder / one.file) for one in manifest.tables]
    output.show_list(manifest, columns, rows)


def _bytes_of(size: str) -> int:
    try:
        return bytes_of(size)
    except ValueError as error:
        raise BadSizeLimit(f"--size {error}.") from error


async def _update(id_or_name: str, **changes: Any) -> None:
    """Change a tenant, and print it; *changes* are arguments of `Lifecycle.update`."""
    async with opened_tenant(id_or_name) as (services, found):
        changed = await services.lifecycle.update(session.context(), found, **changes)
    show_tenant(changed)
