"""``tenantry key``: the API keys of a tenant."""

from typing import Annotated

import typer

from tenantry.access import credentials
from tenantry.access.credentials import GRACE_SECONDS_DEFAULT, GRACE_SECONDS_MAX, IssuedKey
from tenantry.catalog import credentials as stored
from tenantry.catalog.credentials import ApiKeyNotFound
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.finding import opened_tenant, read_id, read_tenant
from tenantry.cli.printing import output
from tenantry.schemas.credentials import ApiKeyList, IssuedApiKeyResponse

KeyId = Annotated[str, typer.Argument(help="The id of the key.")]

group = new_group("Manage the API keys of a tenant.")


@group.command("create")
async def create(tenant: options.Tenant, *, expires_at: options.ExpiresAt = None) -> None:
    """Create another API key of a tenant. It is shown only once."""
    async with opened_tenant(tenant) as (services, found):
        issued = await credentials.issue_key(
            session.context(), services.catalog, found.id, expires_at=expires_at
        )
    _show(issued)


@group.command("list")
async def show_all(tenant: options.Tenant) -> None:
    """List the API keys of a tenant, the oldest first."""
    async with read_tenant(tenant) as (services, found):
        keys = await stored.keys(services.catalog, found.id)
    columns = [output.unwrapped("ID"), output.unwrapped("Key"), "Last used, UTC", "Expires, UTC"]
    rows = [
        (key.id, f"{key.prefix}…", output.minute(key.last_used_at), output.minute(key.expires_at))
        for key in keys
    ]
    output.show_list(ApiKeyList.of_all(keys), columns, rows, none="No API keys.")


@group.command("rotate")
async def rotate(
    tenant: options.Tenant,
    key_id: KeyId,
    *,
    grace_period_seconds: Annotated[
        int, typer.Option(min=0, max=GRACE_SECONDS_MAX, help="How long the old key stays valid.")
    ] = GRACE_SECONDS_DEFAULT,
) -> None:
    """Replace an API key; the old one stays valid for a grace period.

    If the old one has an end, the new one has the same. A key is rotated once.
    """
    async with opened_tenant(tenant) as (services, found):
        issued = await credentials.rotate_key(
            session.context(),
            services.catalog,
            found.id,
            read_id(key_id, ApiKeyNotFound),
            grace_seconds=grace_period_seconds,
        )
    _show(issued)
    if not output.wants_json():
        output.note(
            f"The old key expires in {grace_period_seconds:,} s, or earlier if already set."
        )


@group.command("revoke")
async def revoke(tenant: options.Tenant, key_id: KeyId) -> None:
    """Revoke an API key of a tenant. It is invalid immediately."""
    async with opened_tenant(tenant) as (services, found):
        await credentials.revoke_key(
            session.context(), services.catalog, found.id, read_id(key_id, ApiKeyNotFound)
        )
    output.show_done("The API key was revoked.")


def _show(issued: IssuedKey) -> None:
    key = issued.key
    remedy = f"`tenantry key revoke {key.tenant_id} {key.id}` revokes it."
    attributes = {"API key": issued.secret, "id": key.id, "expires": key.expires_at}
    with output.only_once("The API key is", remedy):
        if not output.shown_as_json(IssuedApiKeyResponse.of(issued)):
            output.show_attributes(attributes)
