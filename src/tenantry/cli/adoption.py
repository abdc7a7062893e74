"""``tenantry tenant adopt``: create a tenant from an existing database."""

import asyncio
from typing import Annotated

import typer

from tenantry.cli import options, output, session
from tenantry.cli.new_tenant import OwnerEmail, OwnerName, read_owner, show_created
from tenantry.fleet.lifecycle import Owner, Provisioned
from tenantry.migration.environment import read_environment
from tenantry.settings import SERVER_DEFAULT, Settings

PENDING = "The next `tenantry migrate all` applies your pending revisions."
NO_DIRECTORY = (
    "To apply your revisions, set TENANTRY_TENANT_MIGRATIONS and run `tenantry migrate all`."
)


def adopt(
    name: str,
    *,
    database: Annotated[
        str,
        typer.Option(help="The database on the PostgreSQL server, or the path of a SQLite file."),
    ],
    owner_email: OwnerEmail,
    owner_name: OwnerName = None,
    server: Annotated[
        str, typer.Option(help="The name of its tenant server in the settings.")
    ] = SERVER_DEFAULT,
    stamp: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Your revision of the database, if it has no version table; "
            "`base` if none was applied.",
        ),
    ] = None,
    password_stdin: options.PasswordStdin = False,
    as_json: options.Json = False,
) -> None:
    """Create a tenant from an existing database.

    A PostgreSQL database becomes the tenant's database; a SQLite file is copied. Tables with the
    prefix tenantry_ are added, and its own tables are not changed. If you delete the tenant later,
    the database is dropped with everything in it.
    """
    settings = session.configure()
    _warn_of_environment(settings)
    new = read_owner(settings, owner_email, owner_name, from_stdin=password_stdin)
    created = asyncio.run(_adopt(settings, name, database, new.owner, server, stamp=stamp))
    show_created(created, new, as_json=as_json)
    if as_json:
        return
    output.note(PENDING if settings.tenant_migrations else NO_DIRECTORY)


def _warn_of_environment(settings: Settings) -> None:
    """Warn of features in the ``env.py`` of the operator's project that Tenantry lacks."""
    if settings.tenant_migrations is None:
        return
    table = settings.tenant_version_table
    for one in read_environment(settings.tenant_migrations, table):
        output.note(f"Your env.py is not run. {one.found} {one.consequence}")


async def _adopt(
    settings: Settings, name: str, database: str, owner: Owner, server: str, *, stamp: str | None
) -> Provisioned:
    async with session.opened(settings) as services:
        return await services.adoption.adopt(
            session.context(),
            name=name,
            database=database,
            owner=owner,
            server_name=server,
            stamp=stamp,
        )
