"""``tenantry admin``: the people of the control plane."""

import asyncio

import typer
from rich.table import Column

from tenantry.access import admins
from tenantry.api.schemas.admins import AdminList, AdminResponse
from tenantry.catalog import admins as catalog_admins
from tenantry.catalog.admins import Admin
from tenantry.cli import options, output, session
from tenantry.cli.secrets import read_password
from tenantry.settings import Settings

group = typer.Typer(help="The people who may manage every tenant.", no_args_is_help=True)


@group.command("create")
def create(
    email: str, *, password_stdin: options.PasswordStdin = False, as_json: options.Json = False
) -> None:
    """Create an admin."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    admin = asyncio.run(_create(settings, email, password))
    if as_json:
        output.show_json(AdminResponse.of(admin))
    else:
        output.show_facts({"admin": admin.email, "id": admin.id})


@group.command("list")
def show_all(*, as_json: options.Json = False) -> None:
    """List the admins, the oldest first."""
    found = asyncio.run(_every(session.configure()))
    if as_json:
        output.show_json(AdminList([AdminResponse.of(admin) for admin in found]))
        return
    columns = [
        Column("ID", no_wrap=True),
        Column("E-mail"),
        Column("Active"),
        Column("Created, UTC", no_wrap=True),
    ]
    rows = [
        (admin.id, admin.email, admin.is_active, output.minute(admin.created_at)) for admin in found
    ]
    output.show_table(columns, rows)
    if not rows:
        output.note("No admins: `tenantry admin create EMAIL` makes one.")


async def _create(settings: Settings, email: str, password: str) -> Admin:
    async with session.opened(settings) as services:
        return await admins.create(
            session.context(),
            services.catalog,
            services.passwords,
            email=email,
            password=password,
        )


async def _every(settings: Settings) -> list[Admin]:
    async with session.opened(settings) as services:
        return await catalog_admins.every(services.catalog)
