"""The first user of a new tenant: the options, the password, and the output."""

import sys
from typing import Annotated

import typer
from msgspec import UNSET, UnsetType

from tenantry.cli.passwords import generate_password, read_password
from tenantry.cli.printing import output
from tenantry.cli.tenant_reading import place_of
from tenantry.fleet.lifecycle import Provisioned
from tenantry.schemas.tenants import CreatedTenantResponse
from tenantry.schemas.users import TenantUserProfile
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser

OwnerEmail = Annotated[str, typer.Option(help="The e-mail address of the first user.")]
OwnerName = Annotated[
    str | None,
    typer.Option(help="The full name of the first user. Default: the part before the @."),
]


class CreatedTenant(CreatedTenantResponse, frozen=True):
    """A new tenant, and the password of its owner if it was generated."""

    owner_password: str | UnsetType = UNSET


def read_owner(
    settings: Settings, email: str, name: str | None, *, from_stdin: bool
) -> tuple[NewUser, str | None]:
    """Return the first user of a new tenant, and their password if it was generated.

    Without `--password-stdin` and without a terminal, a password is generated.

    Raises:
        PasswordMissing, PasswordUnreadable, PasswordsDiffer: As for `read_password`.
    """
    generated = None
    if not from_stdin and (sys.stdin is None or not sys.stdin.isatty()):
        generated = generate_password(chars_min=settings.password_min_length)
    password = generated or read_password(from_stdin=from_stdin)
    name = email.rpartition("@")[0] if name is None else name
    return NewUser(email=email, full_name=name, password=password), generated


def show_created(created: Provisioned, generated: str | None) -> None:
    """Print a new tenant with its API key, and the password if it was generated."""
    tenant, owner = created.tenant, TenantUserProfile.of(created.owner)
    secrets = {"api_key": created.key.secret, "owner_password": generated or UNSET}
    names = "The API key and the password are" if generated else "The API key is"
    remedy = f"`tenantry key rotate {tenant.id} {created.key.key.id}` replaces the key"
    if generated:
        remedy += f", and `tenantry user reset-password {tenant.id} {owner.email}` the password"
    with output.only_once(names, f"{remedy}."):
        if not output.shown_as_json(CreatedTenant.of(tenant, owner=owner, **secrets)):
            output.show_attributes(
                {
                    **place_of(tenant),
                    "owner": created.owner.email,
                    **({"password": generated} if generated else {}),
                    "API key": created.key.secret,
                }
            )
