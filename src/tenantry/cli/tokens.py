"""``tenantry token``: the McpTokens of a tenant."""

from typing import Annotated

import typer

from tenantry.access import credentials
from tenantry.access.principal import ALL_SCOPES, Scope
from tenantry.catalog import credentials as stored
from tenantry.catalog.credentials import McpToken, McpTokenNotFound
from tenantry.cli import options, session, users
from tenantry.cli.commands import new_group
from tenantry.cli.finding import opened_tenant, read_id, read_tenant
from tenantry.cli.printing import output
from tenantry.schemas.credentials import IssuedMcpTokenResponse, McpTokenList
from tenantry.tenant import tokens

group = new_group("Manage the McpTokens of a tenant.")


@group.command("issue")
async def issue(
    tenant: options.Tenant,
    *,
    name: Annotated[str, typer.Option(help="A name to recognize the token by.")],
    user: Annotated[
        str | None,
        typer.Option(help="The user it acts for: an e-mail address or an id. Default: no user."),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="A scope that it allows. Can be repeated. Default: those that read."),
    ] = None,
    expires_at: options.ExpiresAt = None,
) -> None:
    """Create an McpToken of a tenant, valid for 30 days by default. It is shown only once."""
    scopes = frozenset(one.value for one in scope) if scope else None
    async with opened_tenant(tenant) as (services, found):
        database = await services.databases.open(found, writes=False)
        issued = await tokens.issue(
            session.context(),
            services.catalog,
            database,
            found.id,
            name=name,
            user_id=None if user is None else (await users.find(database, user)).id,
            scopes=scopes,
            expires_at=expires_at,
        )
    response = IssuedMcpTokenResponse.of_issued(issued, base_url=services.settings.base_url)
    token = issued.token
    attributes = {"McpToken": issued.secret, "id": token.id, "scopes": _scopes(token)}
    remedy = f"`tenantry token revoke {token.tenant_id} {token.id}` revokes it."
    with output.only_once("The McpToken is", remedy):
        if output.shown_as_json(response):
            return
        output.show_attributes({**attributes, "expires": token.expires_at})
        for one in response.client_configurations:
            output.show_line()
            output.show_line(f"{one.client}, in {one.place}:")
            output.show_line()
            output.show_text(one.text)


@group.command("list")
async def show_all(tenant: options.Tenant) -> None:
    """List the McpTokens of a tenant, the oldest first."""
    async with read_tenant(tenant) as (services, found):
        every = await stored.tokens(services.catalog, found.id)
    columns = [
        output.unwrapped("ID"),
        "Name",
        output.unwrapped("Bound"),
        "Scopes",
        output.unwrapped("Expires, UTC"),
    ]
    rows = [
        (
            token.id,
            token.name,
            token.user_id is not None,
            _scopes(token),
            output.minute(token.expires_at),
        )
        for token in every
    ]
    none = "No McpTokens: `tenantry token issue TENANT` creates one."
    output.show_list(McpTokenList.of_all(every), columns, rows, none=none)


@group.command("revoke")
async def revoke(
    tenant: options.Tenant, token_id: Annotated[str, typer.Argument(help="The id of the McpToken.")]
) -> None:
    """Revoke an McpToken of a tenant. It is invalid immediately."""
    async with opened_tenant(tenant) as (services, found):
        await credentials.revoke_mcp_token(
            session.context(), services.catalog, found.id, read_id(token_id, McpTokenNotFound)
        )
    output.show_done("The McpToken was revoked.")


def _scopes(token: McpToken) -> str:
    return "all" if token.scopes == ALL_SCOPES else ", ".join(sorted(token.scopes))
