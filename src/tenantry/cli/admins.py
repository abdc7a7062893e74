"""``tenantry admin``: the admins of the service."""

from typing import TYPE_CHECKING, Any

from tenantry.access import admins
from tenantry.access.emails import canonical_email
from tenantry.catalog import admins as catalog_admins
from tenantry.catalog.admins import Admin, AdminNotFound
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.passwords import read_password
from tenantry.cli.printing import output
from tenantry.schemas.users import AdminList, AdminResponse
from tenantry.settings import Settings

if TYPE_CHECKING:
    from tenantry.services import Services

group = new_group("Manage the admins of the service.")


@group.command("create")
async def create(email: str, *, password_stdin: options.PasswordStdin = False) -> None:
    """Create an admin."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    async with session.opened(settings) as services:
        admin = await admins.create(
            session.context(),
            services.catalog,
            services.passwords,
            email=email,
            password=password,
        )
    _show(admin)


@group.command("list")
async def show_all() -> None:
    """List the admins, the oldest first."""
    async with session.reading() as services:
        found = await catalog_admins.every(services.catalog)
    columns = [output.unwrapped("ID"), "E-mail", "Active", output.unwrapped("Created, UTC")]
    rows = [
        (admin.id, admin.email, admin.is_active, output.minute(admin.created_at)) for admin in found
    ]
    none = "No admins: `tenantry admin create EMAIL` creates one."
    output.show_list(AdminList.of_all(found), columns, rows, none=none)


@group.command("disable")
async def disable(email: str) -> None:
    """Disable an admin and end their sessions."""
    await _update(email, is_active=False)


@group.command("enable")
async def enable(email: str) -> None:
    """Enable an admin."""
    await _update(email, is_active=True)


@group.command("reset-password")
async def reset_password(email: str, *, password_stdin: options.PasswordStdin = False) -> None:
    """Set the password of an admin and end their sessions."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    await _update(email, settings, password=password)


@group.command("unlock")
async def unlock(email: str, *, address: options.ClientAddress = None) -> None:
    """Reset the failed logins of an admin: the next login is not delayed."""
    async with session.opened() as services:
        if await catalog_admins.find_account(services.catalog, canonical_email(email)) is None:
            raise AdminNotFound
        await services.throttle.lift(realm=admins.REALM, account=email, address=address)
    output.show_done("The failed logins were reset.")


def _show(admin: Admin) -> None:
    if not output.shown_as_json(AdminResponse.of(admin)):
        output.show_attributes({"admin": admin.email, "id": admin.id, "active": admin.is_active})


async def _update(email: str, settings: Settings | None = None, **changes: Any) -> None:
    """Change an admin, and print them; *changes* are those of `admins.update`."""
    async with session.opened(settings) as services:
        changed = await change(services, email, **changes)
    _show(changed)


async def change(services: "Services", email: str, **changes: Any) -> Admin:
    """Change the admin with this address, and return them.

    Raises:
        AdminNotFound: There is none.
    """
    found = await catalog_admins.find_account(services.catalog, canonical_email(email))
    if found is None:
        raise AdminNotFound
    return await admins.update(
        session.context(),
        services.catalog,
        services.passwords,
        found.id,
        throttle=services.throttle,
        **changes,
    )
