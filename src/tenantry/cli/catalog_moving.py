"""``tenantry catalog``: the database that lists the tenants."""

from typing import Annotated

import typer

from tenantry.backup import catalog_moving
from tenantry.backup.catalog_moving import CatalogMove
from tenantry.cli import session, transfer
from tenantry.cli.commands import new_group
from tenantry.cli.database_urls import read_url
from tenantry.cli.exit_status import Misuse
from tenantry.cli.printing import output
from tenantry.kit.threads import DaemonThreads
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.settings import Settings
from tenantry.work.progress import Progress

group = new_group("Move the catalog.")


@group.command("move")
async def move(
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The new database, which is empty. With a password: `-` reads the URL from "
            "standard input, or name a file in it: ?passfile=PATH.",
        ),
    ] = None,
    cancel: Annotated[
        bool,
        typer.Option(
            "--cancel",
            help="Let the catalog at TENANTRY_CATALOG_URL accept writes again, after a move that "
            "was interrupted, or that you give up.",
        ),
    ] = False,
) -> None:
    """Move the catalog from TENANTRY_CATALOG_URL to another database, of any engine.

    Stop every process first. Every row is copied and compared. From then on the old catalog
    rejects writes; set TENANTRY_CATALOG_URL to the new one before you start again.
    """
    if (to is not None) == cancel:
        raise Misuse("Use either --to URL or --cancel.")
    settings = session.configure()
    if to is None:
        await catalog_moving.accept_writes(settings.catalog)
        output.show_done("The catalog accepts writes again.")
        return
    await _move(settings, read_url("--to", to))
    output.show_done(
        "The catalog was moved. Set TENANTRY_CATALOG_URL to the new URL before you start."
    )


async def _move(settings: Settings, target: str) -> None:
    with DaemonThreads(1, "migrate") as threads:
        limits = TimeLimits(
            connect_seconds=settings.connect_timeout_s,
            deadline_seconds=settings.tenant_deadline_s,
            lock_ms=settings.lock_timeout_ms,
        )
        work = CatalogMove(
            source=settings.catalog,
            target=target,
            migrator=Migrator(threads, limits),
            synchronous=settings.sqlite_synchronous,
        )
        progress = Progress()
        with transfer.cancelled_by_signals(), transfer.shown(progress):
            await catalog_moving.move_catalog(session.context(), work, count=progress.add)
