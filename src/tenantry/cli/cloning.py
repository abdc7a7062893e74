"""``tenantry tenant clone``: copy a tenant to a new one."""

from pathlib import Path
from typing import Annotated

import typer

from tenantry.backup import cloning
from tenantry.backup.cloning import SQL_BYTES_MAX, BadAnonymisation
from tenantry.cli import options, session, transfer
from tenantry.cli.finding import find_tenant
from tenantry.cli.restored import show_restored


async def clone(
    tenant: options.Tenant,
    *,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name of the clone.")],
    anonymise: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SQL that is executed in the clone before it can be used."
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="Its tenant server, of the same engine. Default: that of the tenant."),
    ] = None,
) -> None:
    """Copy a tenant to a new one, with the data of this moment.

    The tenant is served during the copy. The clone has another id, one new API key and no logins,
    and is migrated to the head. It is active and writable, also if the tenant is not. If anything
    fails, it is removed.
    """
    settings = session.configure()
    sql = None if anonymise is None else _read(anonymise)
    async with transfer.job(settings) as (services, progress):
        made = await cloning.clone(
            session.context(),
            services.copying,
            await find_tenant(services.catalog, tenant),
            name=name,
            server_name=server,
            anonymise=sql,
            progress=progress,
        )
    show_restored(made)


def _read(path: Path) -> str:
    """Return the SQL in a file.

    Raises:
        BadAnonymisation: It is too large, or not UTF-8.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(SQL_BYTES_MAX + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadAnonymisation from error
    if len(data) > SQL_BYTES_MAX:
        raise BadAnonymisation
    return text
