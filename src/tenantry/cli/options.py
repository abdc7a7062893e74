"""Options that several commands have."""

import ipaddress
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from tenantry.cli.completion import tenant_names
from tenantry.kit.errors import Invalid
from tenantry.schemas.base import Instant


class BadInstant(Invalid):
    """A time must have the form 2030-01-31T12:00:00Z, with an offset from UTC."""


def parse_instant(text: str) -> datetime:
    """Return the instant in *text*, in the format of the HTTP API.

    Raises:
        BadInstant: It is not in that format.
    """
    try:
        return msgspec.convert(text, Instant).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError) as error:
        raise BadInstant from error


class BadAddress(Invalid):
    """The address must be an IPv4 or IPv6 address."""


def parse_address(text: str) -> str:
    """Return *text* if it is an IP address.

    Raises:
        BadAddress: It is not an IP address.
    """
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise BadAddress from error
    return text


ClientAddress = Annotated[
    str | None,
    typer.Option(
        parser=parse_address,
        metavar="IP",
        help="Let this client address log in even while others guess the password.",
    ),
]
Where = Annotated[
    str | None, typer.Option(help="Only the tenants that this selects: `plan=free and region!=eu`.")
]
Page = Annotated[int, typer.Option(min=1, help="The number of the page.")]
PageSize = Annotated[int, typer.Option(min=1, help="Items per page; more than 100 means 100.")]
PasswordStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from the first line of standard input."
    ),
]
ExactName = Annotated[
    str | None, typer.Option(help="Its exact name. Without it, the terminal prompts for it.")
]
Tenant = Annotated[
    str, typer.Argument(help="The tenant's id or its name.", autocompletion=tenant_names)
]
ExpiresAt = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_instant,
        metavar="TIME",
        help="When it expires, for example 2030-01-31T12:00:00Z.",
    ),
]
