"""``tenantry tenant move``: move tenants to another tenant server."""

import asyncio
from typing import Annotated

import typer

from tenantry.backup import moving
from tenantry.backup.jobs import Progress
from tenantry.backup.moving import Moved, NotMoved, SameServer
from tenantry.backup.recovery import every_tenant
from tenantry.catalog.tenants import Tenant
from tenantry.cli import options, output, session, transfer
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.finding import find_tenant
from tenantry.fleet.lifecycle import UnknownServer
from tenantry.kit.errors import Invalid
from tenantry.schemas.backups import MovedList, MovedResponse
from tenantry.services import Services


class NothingToMove(Invalid):
    """Name tenants, or use --all-on SERVER."""


def move(
    tenant: Annotated[
        list[str] | None, typer.Argument(metavar="TENANT...", help="The ids or names of tenants.")
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(metavar="SERVER", help="The new tenant server, by its name in the settings."),
    ],
    all_on: Annotated[
        str | None,
        typer.Option("--all-on", metavar="SERVER", help="Every tenant of this tenant server."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Move tenants to another tenant server, with all data, keys and logins.

    Each tenant is read-only until its copy is complete and compared; reads continue. If anything
    fails, it stays where it is. The old database is dropped about a second after the move.
    """
    if bool(tenant) == (all_on is not None):
        raise NothingToMove
    if to == all_on:
        raise SameServer
    settings = session.configure()

    async def work(services: Services, progress: Progress) -> list[Moved | NotMoved]:
        ctx, copying = session.context(), services.copying
        chosen = await _chosen(services, tenant or [], all_on)
        if len(chosen) == 1 and tenant:  # its error is the result of the command
            return [await moving.move(ctx, copying, chosen[0], server_name=to, progress=progress)]
        return await moving.move_all(ctx, copying, chosen, server_name=to, progress=progress)

    _show(asyncio.run(transfer.run(settings, work)), as_json=as_json)


async def _chosen(services: Services, names: list[str], all_on: str | None) -> list[Tenant]:
    if all_on is None:
        found = [await find_tenant(services.catalog, name) for name in names]
        return list({one.id: one for one in found}.values())
    if all_on not in services.databases.server_names:
        raise UnknownServer
    return [one for one in await every_tenant(services.copying) if one.server_name == all_on]


def _show(ended: list[Moved | NotMoved], *, as_json: bool) -> None:
    failed = [one for one in ended if isinstance(one, NotMoved)]
    if as_json:
        output.show_json(MovedList([_response(one) for one in ended]))
    else:
        for one in ended:
            if isinstance(one, Moved):
                output.show_line(
                    f"{one.tenant.name} is on {one.tenant.server_name}; "
                    f"writes were rejected for {one.rejected_seconds:.1f} s."
                )
        if not ended:
            output.note("No tenants to move.")
    for one in failed:
        output.note(f"Not moved: {one.tenant.name}: {one.error.message}")
    if failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


def _response(one: Moved | NotMoved) -> MovedResponse:
    tenant = one.tenant
    return MovedResponse(
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        server_name=tenant.server_name,
        database_name=tenant.database_name,
        rejected_seconds=round(one.rejected_seconds, 3) if isinstance(one, Moved) else None,
        error=one.error.message if isinstance(one, NotMoved) else None,
    )
