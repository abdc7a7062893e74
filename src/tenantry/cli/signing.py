"""``tenantry signing-key``: the keys that sign logins."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from tenantry.catalog import signing_keys
from tenantry.catalog.signing_keys import SigningKeyNotFound
from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.finding import read_id
from tenantry.cli.printing import output
from tenantry.schemas.base import ListResponse, Schema

group = new_group("Manage the keys that sign logins.")


class SigningKeyResponse(Schema, frozen=True):
    """A signing key; its id is the `kid` of the tokens that it signs."""

    id: UUID
    created_at: datetime
    signs_from: datetime
    signs_until: datetime | None


class SigningKeyList(ListResponse[SigningKeyResponse], frozen=True):
    """The signing keys."""


@group.command("list")
async def show_all() -> None:
    """List the signing keys, the oldest first.

    A key that no longer signs is removed automatically when its last token has expired.
    """
    async with session.reading() as services:
        found = await signing_keys.every(services.catalog)
    columns = [
        output.unwrapped("ID"),
        output.unwrapped("Signs from, UTC"),
        output.unwrapped("Signs until, UTC"),
    ]
    rows = [
        (key.id, output.minute(key.signs_from), output.minute(key.signs_until)) for key in found
    ]
    output.show_list(SigningKeyList.of_all(found), columns, rows)


@group.command("rotate")
async def rotate() -> None:
    """Publish a new signing key; every process signs with it after one minute.

    Tokens signed with the old keys stay valid until they expire.
    """
    async with session.opened() as services:
        added = await services.signing_keys.rotate(session.context())
    if output.shown_as_json(SigningKeyResponse.of(added)):
        return
    output.show_attributes({"signing key": added.id, "signs from": added.signs_from})
    output.note("No new login is needed: tokens signed with old keys stay valid until they expire.")


@group.command("revoke")
async def revoke(key_id: Annotated[str, typer.Argument(help="The id of the signing key.")]) -> None:
    """Remove a signing key immediately. Users with its tokens must log in again.

    If no other key can sign, a new one is created.
    """
    settings = session.configure()
    found = read_id(key_id, SigningKeyNotFound)
    async with session.opened(settings) as services:
        await services.signing_keys.revoke(session.context(), found)
    output.show_done("The signing key was revoked.")
