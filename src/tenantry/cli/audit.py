"""``tenantry audit``: who did what, when, from where."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from tenantry.catalog import audit
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.completion import tenant_names
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import find_tenant
from tenantry.cli.printing import output
from tenantry.cli.session import Reading
from tenantry.db.audit_log import AuditEntry, AuditFilter, AuditLog
from tenantry.db.sessions import Session
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Window
from tenantry.schemas.audit import AuditPage, json_lines
from tenantry.tenant import audit as tenant_audit

group = new_group("Read the audit log.")

Since = Annotated[
    datetime | None,
    typer.Option(parser=options.parse_instant, metavar="TIME", help="At this time or later."),
]
Until = Annotated[
    datetime | None,
    typer.Option(parser=options.parse_instant, metavar="TIME", help="Before this time."),
]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which log, and which of its entries."""

    actor: Annotated[
        str | None,
        typer.Option(
            help="Who: an admin's e-mail address, `user:ID`, `mcp-token:ID`, `cli:USER@HOST`."
        ),
    ] = None
    action: Annotated[
        str | None, typer.Option(help="What: `login.failure`, `tenant.update`, ...")
    ] = None
    target: Annotated[str | None, typer.Option(help="The id of what was changed.")] = None
    tenant: Annotated[
        str | None,
        typer.Option(
            help="A tenant's id or name; of a deleted tenant, the id.", autocompletion=tenant_names
        ),
    ] = None
    inside: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT",
            autocompletion=tenant_names,
            help="Read the log of this tenant's own database: what was changed in the tenant.",
        ),
    ] = None
    since: Since = None
    until: Until = None


@group.command("list")
async def show_page(
    *, selection: Selection, page: options.Page = 1, page_size: options.PageSize = PAGE_SIZE_DEFAULT
) -> None:
    """List entries of the audit log, the newest first."""
    window = Window(page, page_size)
    async with session.reading() as services:
        log, database, wanted = await _log(services, selection)
        found = await log.page(database, window, wanted)
    columns = [
        output.unwrapped("At, UTC"),
        output.number("Times"),
        "Who",
        output.unwrapped("What"),
        output.unwrapped("To what"),
        "From",
        "Changes",
    ]
    rows = [
        (
            output.minute(one.at),
            one.count,
            one.actor,
            one.action,
            one.target,
            one.command or one.address,
            _changes(one),
        )
        for one in found.items
    ]
    output.show_page(AuditPage.of_page(found), found, "entries", columns, rows)


@group.command("export")
async def export(*, selection: Selection) -> None:
    """Print the audit log as JSON lines, newest first, with or without --json."""
    async with session.reading() as services:
        log, database, wanted = await _log(services, selection)
        async for entries in log.each(database, wanted):
            output.results().write(json_lines(entries).decode())
    output.results().flush()


def _changes(entry: AuditEntry) -> str:
    return ", ".join(
        f"{one['field']}: {_shown(one['old'])} -> {_shown(one['new'])}"
        if "new" in one
        else str(one["field"])
        for one in entry.changes
    )


def _shown(value: object) -> str:
    return output.NOTHING if value is None else str(value)


async def _log(
    services: Reading, selection: Selection
) -> tuple[AuditLog[Any], Session[Any], AuditFilter]:
    """Return the log to read, its database, and the filter of its entries."""
    tenant, inside = selection.tenant, selection.inside
    wanted = AuditFilter(
        actor=selection.actor,
        action=selection.action,
        target=selection.target,
        since=selection.since,
        until=selection.until,
    )
    if inside is not None:
        if tenant is not None:
            raise Misuse(
                "`--tenant` filters the service's log and `--inside` reads a tenant's: give one "
                "of them."
            )
        found = await find_tenant(services.catalog, inside)
        database = await services.databases.open(found, writes=False)
        return tenant_audit.LOG, database, msgspec.structs.replace(wanted, tenant_id=found.id)
    if tenant is not None:
        # Entries remain after their tenant was deleted, so the id of a deleted tenant is valid.
        tenant_id = parse_id(tenant) or (await find_tenant(services.catalog, tenant)).id
        wanted = msgspec.structs.replace(wanted, tenant_id=tenant_id)
    return audit.LOG, services.catalog, wanted
