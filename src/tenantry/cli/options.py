"""Options that several commands have."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from tenantry.kit.errors import Invalid
from tenantry.schemas.base import Instant


class BadInstant(Invalid):
    """A time must be written as in 2030-01-31T12:00:00Z, with its offset from UTC."""


def parse_instant(text: str) -> datetime:
    """Return the instant that *text* spells, as the HTTP API takes it.

    Raises:
        BadInstant: It spells none.
    """
    try:
        return msgspec.convert(text, Instant).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise BadInstant from error


Json = Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP API has it in `data`.")]
Page = Annotated[int, typer.Option(min=1, help="Which page.")]
PageSize = Annotated[int, typer.Option(min=1, help="How many on a page, 100 at most.")]
PasswordStdin = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from the first line of the input."),
]
Tenant = Annotated[str, typer.Argument(help="The tenant's id or its name.")]
ExpiresAt = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_instant, metavar="TIME", help="When it ends: 2030-01-31T12:00:00Z, say."
    ),
]
