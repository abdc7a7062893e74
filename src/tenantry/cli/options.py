"""Options that several commands have."""

import ipaddress
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


class BadAddress(Invalid):
    """An address must be one of IPv4 or IPv6."""


def parse_address(text: str) -> str:
    """Return *text* if it is an IP address.

    Raises:
        BadAddress: It is none.
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
        help="Logins from this address are no longer delayed by failures of others.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON, with the members of the HTTP API's `data`.")
]
Page = Annotated[int, typer.Option(min=1, help="The number of the page.")]
PageSize = Annotated[int, typer.Option(min=1, help="Items per page; more than 100 means 100.")]
PasswordStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from the first line of standard input."
    ),
]
Tenant = Annotated[str, typer.Argument(help="The tenant's id or its name.")]
ExpiresAt = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_instant,
        metavar="TIME",
        help="When it expires, for example 2030-01-31T12:00:00Z.",
    ),
]
