"""``tenantry tenant adopt``: create a tenant from an existing database."""

from typing import Annotated

import typer

from tenantry.backup import cloning
from tenantry.cli import options, session, transfer
from tenantry.cli.database_urls import STANDARD_INPUT, read_url
from tenantry.cli.exit_status import Misuse
from tenantry.cli.new_tenant import OwnerName, read_owner, show_created
from tenantry.cli.printing import output
from tenantry.cli.restored import show_restored
from tenantry.migration.environment import read_environment
from tenantry.settings import SERVER_DEFAULT, Settings

PENDING = "The next `tenantry migrate all` applies your pending revisions."
NAME_OR_AS = (
    "Use either NAME with --owner-email, or --as NAME, which takes no owner and no --stamp."
)
NO_DIRECTORY = (
    "To apply your revisions, set TENANTRY_TENANT_MIGRATIONS and run `tenantry migrate all`."
)

Database = Annotated[
    str,
    typer.Option(
        help="The database on the PostgreSQL server, or the path of a SQLite file. With --as also "
        "a URL; with a password: `-` reads the URL from standard input, or name a file in it: "
        "?passfile=PATH."
    ),
]
NewName = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Adopt a restored copy of a tenant's database, as a new tenant of this name.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        help="The name of its tenant server in the settings. Default: `default`; with --as, one "
        "of the copy's engine."
    ),
]
Stamp = Annotated[
    str | None,
    typer.Option(
        metavar="REVISION",
        help="Your revision of the database, if it has no version table; `base` if none was "
        "applied.",
    ),
]


async def adopt(
    name: Annotated[str | None, typer.Argument(help="The name of the tenant.")] = None,
    *,
    database: Database,
    new_name: NewName = None,
    owner_email: Annotated[
        str | None, typer.Option(help="The e-mail address of the first user.")
    ] = None,
    owner_name: OwnerName = None,
    server: Server = None,
    stamp: Stamp = None,
    password_stdin: options.PasswordStdin = False,
) -> None:
    """Create a tenant from an existing database.

    A PostgreSQL database becomes the tenant's database; a SQLite file is copied. Tables with the
    prefix tenantry_ are added, and its own tables are not changed. If you delete the tenant later,
    the database is dropped with everything in it.

    With --as, the database is a copy of a tenant's database that another program has restored. It
    is copied once more, and is not changed. The new tenant has another id, one new API key and no
    logins, and is migrated to the head.
    """
    settings = session.configure()
    if new_name is not None:
        if any((name, owner_email, owner_name, stamp, password_stdin)):
            raise Misuse(NAME_OR_AS)
        await _adopt_copy(settings, database, new_name, server)
        return
    if name is None or owner_email is None:
        raise Misuse(NAME_OR_AS)
    _warn_of_environment(settings)
    owner, generated = read_owner(settings, owner_email, owner_name, from_stdin=password_stdin)
    async with session.opened(settings) as services:
        await services.job_worker.reap()  # as `tenant create` does
        created = await services.adoption.adopt(
            session.context(),
            name=name,
            database=database,
            owner=owner,
            server_name=server or SERVER_DEFAULT,
            stamp=stamp,
        )
    show_created(created, generated)
    if not output.wants_json():
        output.note(PENDING if settings.tenant_migrations else NO_DIRECTORY)


async def _adopt_copy(settings: Settings, database: str, name: str, server: str | None) -> None:
    is_url = database == STANDARD_INPUT or "://" in database
    source = read_url("--database", database) if is_url else database
    async with transfer.job(settings) as (services, progress):
        made = await cloning.adopt_copy(
            session.context(),
            services.copying,
            source,
            name=name,
            server_name=server,
            progress=progress,
        )
    show_restored(made)


def _warn_of_environment(settings: Settings) -> None:
    """Warn of features in the ``env.py`` of the operator's project that Tenantry lacks."""
    if settings.tenant_migrations is None:
        return
    table = settings.tenant_version_table
    for one in read_environment(settings.tenant_migrations, table):
        output.note(f"Your env.py is not run. {one.found} {one.consequence}")
