"""``tenantry tenant move``: move tenants to another tenant server."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tenantry.backup import moving
from tenantry.backup.moving import Moved, NotMoved, Planned
from tenantry.backup.online import Way, describe
from tenantry.backup.recovery import every_tenant
from tenantry.catalog.tenants import Tenant
from tenantry.cli import options, session, transfer
from tenantry.cli.exit_status import ExitStatus, Misuse
from tenantry.cli.finding import find_tenant
from tenantry.cli.printing import output
from tenantry.schemas.backups import (
    MovedList,
    MovedResponse,
    PlannedMoveList,
    PlannedMoveResponse,
)
from tenantry.services import Services

Result = Moved | Planned | NotMoved


async def move(
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
    where: options.Where = None,
    is_online: Annotated[
        bool,
        typer.Option("--online", help="Move nothing that would be read-only while it is copied."),
    ] = False,
    is_offline: Annotated[
        bool, typer.Option("--offline", help="Make each tenant read-only while it is copied.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show which tenants would be moved online, and why others would not."
        ),
    ] = False,
) -> None:
    """Move tenants to another tenant server, with all data, keys and logins.

    Between two servers of PostgreSQL that allow it, a tenant is moved online: its writes are
    rejected for less than a second, at the end. Otherwise it is read-only until its copy is
    complete and compared; reads continue. If anything fails, it stays where it is. The old
    database is dropped about a second after the move.
    """
    if bool(tenant) == (all_on is not None or where is not None):
        raise Misuse("Name tenants, or use --all-on SERVER, --where, or both.")
    if is_online and is_offline:
        raise Misuse("Use one of --online and --offline.")
    settings = session.configure()
    way = Way.ONLINE if is_online else Way.OFFLINE if is_offline else Way.AUTO
    ended: Sequence[Result]
    async with transfer.job(settings) as (services, progress):
        ctx, copying = session.context(), services.copying
        chosen = await _chosen(services, tenant or [], all_on, where, to)
        if dry_run:
            ended = await moving.plan(copying, chosen, server_name=to, way=way)
        elif len(chosen) == 1 and tenant:  # its error is the result of the command
            ended = [
                await moving.move(
                    ctx, copying, chosen[0], server_name=to, progress=progress, way=way
                )
            ]
        else:
            ended = await moving.move_all(
                ctx, copying, chosen, server_name=to, progress=progress, way=way
            )
    _show(ended, dry_run=dry_run)


async def _chosen(
    services: Services, names: list[str], all_on: str | None, where: str | None, to: str
) -> list[Tenant]:
    """Return the named tenants; or those of a server or an expression that are not on *to* yet."""
    if names:
        found = [await find_tenant(services.catalog, name) for name in names]
        return list({one.id: one for one in found}.values())
    moving.check_servers(services.copying, all_on, to)
    every = await every_tenant(services.copying, where=where)
    return [one for one in every if one.server_name != to and all_on in (None, one.server_name)]


def _show(ended: Sequence[Result], *, dry_run: bool) -> None:
    failed = [one for one in ended if isinstance(one, NotMoved)]
    response = (
        PlannedMoveList([PlannedMoveResponse(**_members(one)) for one in ended])
        if dry_run
        else MovedList([_response(one) for one in ended])
    )
    if not output.shown_as_json(response):
        for one in ended:
            if not isinstance(one, NotMoved):
                output.show_line(_line(one))
        if not ended:
            output.note("No tenants to move.")
    for one in failed:
        output.note(f"Not moved: {one.tenant.name}: {one.error.message}")
    if failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


def _line(one: Moved | Planned) -> str:
    name = one.tenant.name
    if isinstance(one, Planned):
        return f"{name}: {describe(one.obstacle)}"
    seconds = f"writes were rejected for {one.rejected_seconds:.1f} s"
    how = "moved online" if one.obstacle is None else f"not moved online, because {one.obstacle}"
    return f"{name} is on {one.tenant.server_name}; {seconds} ({how})."


def _response(one: Result) -> MovedResponse:
    return MovedResponse(
        database_name=one.tenant.database_name,
        rejected_seconds=round(one.rejected_seconds, 3) if isinstance(one, Moved) else None,
        **_members(one),
    )


def _members(one: Result) -> dict[str, Any]:
    """Return the members that the responses of a move and of a plan have in common."""
    obstacle = None if isinstance(one, NotMoved) else one.obstacle
    return {
        "tenant_id": one.tenant.id,
        "tenant_name": one.tenant.name,
        "server_name": one.tenant.server_name,
        "is_online": None if isinstance(one, NotMoved) else obstacle is None,
        "obstacle": obstacle,
        "error": one.error.message if isinstance(one, NotMoved) else None,
    }
