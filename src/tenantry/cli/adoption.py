"""``tenantry tenant adopt``: make a tenant of a database that exists."""

import asyncio
from typing import Annotated

import typer

from tenantry.cli import options, output, session
from tenantry.cli.secrets import read_password
from tenantry.fleet.lifecycle import Owner, Provisioned
from tenantry.migration.environment import read_environment
from tenantry.schemas.tenants import CreatedTenantResponse
from tenantry.settings import SERVER_DEFAULT, Settings

PENDING = "Revisions of your own that are pending come with the next `tenantry migrate all`."
NO_DIRECTORY = "Set TENANTRY_TENANT_MIGRATIONS, and `tenantry migrate all` applies your revisions."


def adopt(
    name: str,
    *,
    database: Annotated[
        str, typer.Option(help="Its name on the PostgreSQL server, or the path of a SQLite file.")
    ],
    owner_email: Annotated[str, typer.Option(help="The e-mail address of its first user.")],
    owner_name: Annotated[str, typer.Option(help="The full name of its first user.")],
    server: Annotated[
        str, typer.Option(help="The tenant server that has it, by its name in the settings.")
    ] = SERVER_DEFAULT,
    stamp: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="The revision of yours that the database is at, if it does not say so itself; "
            "`base` if none was applied.",
        ),
    ] = None,
    password_stdin: options.PasswordStdin = False,
    as_json: options.Json = False,
) -> None:
    """Make a tenant of a database that exists, with the tables that it has.

    A PostgreSQL database is taken over where it is; of a SQLite file a copy is made. Tables
    that begin with tenantry_ are added, and nothing of its own is changed. From then on it is
    the tenant's: deleting the tenant drops the database, with everything in it.
    """
    settings = session.configure()
    _warn_of_environment(settings)
    password = read_password(from_stdin=password_stdin)
    owner = Owner(email=owner_email, full_name=owner_name, password=password)
    made = asyncio.run(_adopt(settings, name, database, owner, server, stamp=stamp))
    if as_json:
        output.show_json(CreatedTenantResponse.of_provisioned(made))
        return
    output.show_facts(
        {
            "tenant": made.tenant.name,
            "id": made.tenant.id,
            "database": made.tenant.database_name,
            "revision": made.tenant.schema_revision,
            "owner": made.owner.email,
            "API key": made.key.secret,
        }
    )
    output.note("The API key is shown only now.")
    output.note(PENDING if settings.tenant_migrations else NO_DIRECTORY)


def _warn_of_environment(settings: Settings) -> None:
    """Say what the ``env.py`` of the operator's project does that Tenantry does not."""
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
