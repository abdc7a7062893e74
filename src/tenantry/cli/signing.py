"""``tenantry signing-key``: the keys that sign logins."""

import asyncio
from datetime import datetime
from uuid import UUID

import typer

from tenantry.catalog.signing_keys import SigningKey
from tenantry.cli import options, output, session
from tenantry.schemas.base import Schema
from tenantry.settings import Settings

group = typer.Typer(help="The keys that sign logins.", no_args_is_help=True)


class SigningKeyResponse(Schema, frozen=True):
    """A signing key; its id is the `kid` of the tokens that it signs."""

    id: UUID
    created_at: datetime
    signs_from: datetime


@group.callback()
def _stay_a_group() -> None:
    """Keep the name of the one command: typer would leave it out."""


@group.command("rotate")
def rotate(*, as_json: options.Json = False) -> None:
    """Publish a new signing key, which every process signs with in a minute.

    What the old keys have signed is good until it expires.
    """
    added = asyncio.run(_rotate(session.configure()))
    if as_json:
        output.show_json(SigningKeyResponse(added.id, added.created_at, added.signs_from))
        return
    output.show_facts({"signing key": added.id, "signs from": added.signs_from})
    output.note("Nobody has to log in again: what the old keys have signed is good to its end.")


async def _rotate(settings: Settings) -> SigningKey:
    async with session.opened(settings) as services:
        return await services.signing_keys.rotate(
            session.context(), token_lifetime=services.tokens.lifetime
        )
