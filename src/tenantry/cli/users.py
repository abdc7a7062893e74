"""``tenantry user``: the users of one tenant."""

from typing import Annotated, Any
from uuid import UUID

import typer

from tenantry.access.emails import canonical_email
from tenantry.access.principal import TenantRole
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import opened_tenant, read_id, read_tenant
from tenantry.cli.passwords import read_password
from tenantry.cli.printing import output
from tenantry.cli.prompts import confirmation
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import PAGE_SIZE_MAX, Window
from tenantry.schemas.links import IssuedLinkResponse, LinkPage
from tenantry.schemas.users import TenantUserPage, TenantUserResponse
from tenantry.settings import Settings
from tenantry.tenant import links, users
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.links import IssuedLink, LinkNotFound
from tenantry.tenant.users import NewUser, User, UserNotFound

group = new_group("Manage the users of a tenant.")

Role = Annotated[TenantRole, typer.Option(help="What the user may do in the tenant.")]
UserArgument = Annotated[str, typer.Argument(help="The user's e-mail address or id.")]


@group.command("create")
async def create(
    tenant: options.Tenant,
    email: str,
    *,
    full_name: Annotated[str, typer.Option(help="The full name of the user.")],
    role: Role = TenantRole.OWNER,
    password_stdin: options.PasswordStdin = False,
) -> None:
    """Create a user of a tenant."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    async with opened_tenant(tenant, settings) as (services, found):
        user = await users.create(
            session.context(),
            await services.databases.open(found, writes=True),
            services.passwords,
            NewUser(email=email, full_name=full_name, password=password, role=role),
        )
    _show(user)


@group.command("list")
async def show_all(
    tenant: options.Tenant, *, page: options.Page = 1, page_size: options.PageSize = PAGE_SIZE_MAX
) -> None:
    """List the users of a tenant, the oldest first."""
    async with read_tenant(tenant) as (services, found):
        database = await services.databases.open(found, writes=False)
        shown = await users.page(database, Window(page, page_size))
    columns = [output.unwrapped("ID"), "E-mail", "Name", "Role", output.unwrapped("Active")]
    rows = [(one.id, one.email, one.full_name, one.role, one.is_active) for one in shown.items]
    output.show_page(TenantUserPage.of_page(shown), shown, "users", columns, rows)


@group.command("reset-password")
async def reset_password(
    tenant: options.Tenant, user: UserArgument, *, password_stdin: options.PasswordStdin = False
) -> None:
    """Set the password of a user and end their sessions."""
    settings = session.configure()
    password = read_password(from_stdin=password_stdin)
    await _update(tenant, user, settings, password=password)


@group.command("set-role")
async def set_role(
    tenant: options.Tenant,
    user: UserArgument,
    role: Annotated[TenantRole, typer.Argument(help="What the user may do in the tenant.")],
) -> None:
    """Set what a user may do in the tenant, from the next request on."""
    await _update(tenant, user, role=role)


@group.command("deactivate")
async def deactivate(tenant: options.Tenant, user: UserArgument) -> None:
    """Deactivate a user: sessions and bound McpTokens end, the account is kept."""
    await _update(tenant, user, is_active=False)


@group.command("activate")
async def activate(tenant: options.Tenant, user: UserArgument) -> None:
    """Activate a user."""
    await _update(tenant, user, is_active=True)


@group.command("delete")
async def delete(
    tenant: options.Tenant,
    user: UserArgument,
    *,
    email: Annotated[
        str | None,
        typer.Option(help="The user's e-mail address. Without it, the terminal prompts for it."),
    ] = None,
) -> None:
    """Delete a user and the McpTokens bound to them. This cannot be undone."""
    settings = session.configure()
    async with opened_tenant(tenant, settings) as (services, found):
        account = await find(await services.databases.open(found, writes=False), user)
    question = f"This cannot be undone. Type `{account.email}` to delete the user: "
    email = confirmation(email, question, option="--email")
    if canonical_email(email) != canonical_email(account.email):
        raise Misuse("The confirmation must be the e-mail address of the user.")
    async with opened_tenant(tenant, settings) as (services, found):
        database = await services.databases.open(found, writes=True)
        await users.delete(session.context(), services.catalog, database, found.id, account.id)
    output.show_done("The user was deleted.")


@group.command("unlock")
async def unlock(
    tenant: options.Tenant, user: UserArgument, *, address: options.ClientAddress = None
) -> None:
    """Reset the failed logins of a user: the next login is not delayed."""
    async with opened_tenant(tenant) as (services, found):
        account = await find(await services.databases.open(found, writes=False), user)
        await services.throttle.lift(realm=str(found.id), account=str(account.id), address=address)
    output.show_done("The failed logins were reset.")


@group.command("invite")
async def invite(tenant: options.Tenant, email: str, *, role: Role = TenantRole.EDITOR) -> None:
    """Make a link that invites a person to a tenant. It is shown only once, and works for 72 h."""
    settings = session.configure()
    async with opened_tenant(tenant, settings) as (services, found):
        database = await services.databases.open(found, writes=True)
        issued = await links.invite(session.context(), database, found.id, email=email, role=role)
    _show_link(issued, settings, found.id)


@group.command("reset-link")
async def reset_link(tenant: options.Tenant, user: UserArgument) -> None:
    """Make a link with which a user sets a new password. It is shown only once, for 72 h."""
    settings = session.configure()
    async with opened_tenant(tenant, settings) as (services, found):
        database = await services.databases.open(found, writes=True)
        account = await find(database, user)
        issued = await links.issue_reset(session.context(), database, found.id, account.id)
    _show_link(issued, settings, found.id)


@group.command("links")
async def show_links(
    tenant: options.Tenant, *, page: options.Page = 1, page_size: options.PageSize = PAGE_SIZE_MAX
) -> None:
    """List the open links of a tenant, the oldest first: invitations, and resets of passwords."""
    async with read_tenant(tenant) as (services, found):
        database = await services.databases.open(found, writes=False)
        shown = await links.page(session.context(), database, Window(page, page_size))
    columns = [output.unwrapped("ID"), "E-mail", "For", output.unwrapped("Expires, UTC")]
    rows = [
        (
            one.id,
            one.email,
            f"a new {one.role}" if one.role else "a reset",
            output.minute(one.expires_at),
        )
        for one in shown.items
    ]
    output.show_page(LinkPage.of_page(shown), shown, "links", columns, rows)


@group.command("revoke-link")
async def revoke_link(
    tenant: options.Tenant, link_id: Annotated[str, typer.Argument(help="The id of the link.")]
) -> None:
    """Revoke a link of a tenant. It is invalid immediately."""
    async with opened_tenant(tenant) as (services, found):
        database = await services.databases.open(found, writes=True)
        await links.revoke(session.context(), database, read_id(link_id, LinkNotFound))
    output.show_done("The link was revoked.")


async def find(database: TenantDatabase, email_or_id: str) -> User:
    """Return the user of a tenant with this e-mail address or id.

    Raises:
        UserNotFound: There is no such user.
    """
    user_id = parse_id(email_or_id)
    if user_id is not None:
        return await users.get(database, user_id)
    found = await users.find_by_email(database, email_or_id)
    if found is None:
        raise UserNotFound
    return found


def _show(user: User) -> None:
    if not output.shown_as_json(TenantUserResponse.of(user)):
        attributes = {"user": user.email, "name": user.full_name, "id": user.id}
        output.show_attributes({**attributes, "role": user.role, "active": user.is_active})


def _show_link(issued: IssuedLink, settings: Settings, tenant_id: UUID) -> None:
    response, link = IssuedLinkResponse.of_issued(issued, base_url=settings.base_url), issued.link
    attributes = {"link": response.url, "e-mail": link.email, "id": link.id}
    role = {"role": link.role} if link.role else {}
    remedy = f"`tenantry user revoke-link {tenant_id} {link.id}` revokes it."
    with output.only_once("The link is", remedy):
        if not output.shown_as_json(response):
            output.show_attributes({**attributes, **role, "expires": link.expires_at})
            output.note("Who opens the link first sets the password.")


async def _update(tenant: str, user: str, settings: Settings | None = None, **changes: Any) -> None:
    """Change a user, and print them; *changes* are those of `users.update`."""
    async with opened_tenant(tenant, settings) as (services, found):
        database = await services.databases.open(found, writes=True)
        changed = await users.update(
            session.context(),
            services.catalog,
            database,
            services.passwords,
            (await find(database, user)).id,
            tenant_id=found.id,
            throttle=services.throttle,
            **changes,
        )
    _show(changed)
