"""``tenantry admin``: the admins of the service."""

import asyncio

from rich.table import Column

from tenantry.access import admins
from tenantry.access.emails import canonical_email
from tenantry.catalog import admins as catalog_admins
from tenantry.catalog.admins import Admin, AdminNotFound
from tenantry.cli import options, output, session
from tenantry.cli.commands import new_group
from tenantry.cli.passwords import read_password
from tenantry.schemas.admins import AdminList, AdminResponse
from tenantry.settings import Settings

group = new_group("Manage the admins of the service.")


@group.command("create")
def create(
    email: str, *, password_stdin: options.PasswordStdin = False, as_json: options.Json = False
) -> None:
    """Create an admin."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    admin = asyncio.run(_create(settings, email, password))
    _show(admin, as_json=as_json)


@group.command("list")
def show_all(*, as_json: options.Json = False) -> None:
    """List the admins, the oldest first."""
    found = asyncio.run(_every(session.configure()))
    if as_json:
        output.show_json(AdminList.of_all(found))
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
        output.note("No admins: `tenantry admin create EMAIL` creates one.")


@group.command("disable")
def disable(email: str, *, as_json: options.Json = False) -> None:
    """Disable an admin and end their sessions."""
    changed = asyncio.run(_update(session.configure(), email, is_active=False))
    _show(changed, as_json=as_json)


@group.command("enable")
def enable(email: str, *, as_json: options.Json = False) -> None:
    """Enable an admin."""
    changed = asyncio.run(_update(session.configure(), email, is_active=True))
    _show(changed, as_json=as_json)


@group.command("reset-password")
def reset_password(
    email: str, *, password_stdin: options.PasswordStdin = False, as_json: options.Json = False
) -> None:
    """Set the password of an admin and end their sessions."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    changed = asyncio.run(_update(settings, email, password=password))
    _show(changed, as_json=as_json)


@group.command("unlock")
def unlock(
    email: str, *, address: options.ClientAddress = None, as_json: options.Json = False
) -> None:
    """Reset the failed logins of an admin: the next login is not delayed."""
    asyncio.run(_unlock(session.configure(), email, address))
    output.show_done("The failed logins were reset.", as_json=as_json)


def _show(admin: Admin, *, as_json: bool) -> None:
    if as_json:
        output.show_json(AdminResponse.of(admin))
    else:
        output.show_attributes({"admin": admin.email, "id": admin.id, "active": admin.is_active})


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


async def _update(
    settings: Settings, email: str, *, is_active: bool | None = None, password: str | None = None
) -> Admin:
    async with session.opened(settings) as services:
        found = await catalog_admins.find_account(services.catalog, canonical_email(email))
        if found is None:
            raise AdminNotFound
        return await admins.update(
            session.context(),
            services.catalog,
            services.passwords,
            found.id,
            throttle=services.throttle,
            is_active=is_active,
            password=password,
        )


async def _unlock(settings: Settings, email: str, address: str | None) -> None:
    async with session.opened(settings) as services:
        if await catalog_admins.find_account(services.catalog, canonical_email(email)) is None:
            raise AdminNotFound
        await services.throttle.lift(realm=admins.REALM, account=email, address=address)
