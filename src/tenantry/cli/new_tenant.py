"""The first user of a new tenant: the options, the password, and the output."""

from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec import UNSET, UnsetType

from tenantry.cli import output
from tenantry.cli.passwords import read_or_generate_password
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


@dataclass(frozen=True, slots=True)
class NewOwner:
    """The first user, and whether their password was generated."""

    owner: NewUser
    is_generated: bool


def read_owner(settings: Settings, email: str, name: str | None, *, from_stdin: bool) -> NewOwner:
    """Return the first user of a new tenant.

    Without `--password-stdin` and without a terminal, a password is generated.

    Raises:
        PasswordMissing, PasswordUnreadable, PasswordsDiffer: As for `read_password`.
    """
    password, is_generated = read_or_generate_password(
        from_stdin=from_stdin, chars_min=settings.password_min_length
    )
    name = email.rpartition("@")[0] if name is None else name
    return NewOwner(NewUser(email=email, full_name=name, password=password), is_generated)


def show_created(created: Provisioned, new: NewOwner, *, as_json: bool) -> None:
    """Print a new tenant with its API key, and the password if it was generated."""
    password = new.owner.password if new.is_generated else UNSET
    if as_json:
        owner = TenantUserProfile.of(created.owner)
        secrets = {"api_key": created.key.secret, "owner_password": password}
        output.show_json(CreatedTenant.of(created.tenant, owner=owner, **secrets))
        return
    tenant = created.tenant
    output.show_attributes(
        {
            "tenant": tenant.name,
            "id": tenant.id,
            "server": tenant.server_name,
            "database": tenant.database_name,
            "revision": tenant.schema_revision,
            "owner": created.owner.email,
            **({"password": password} if new.is_generated else {}),
            "API key": created.key.secret,
        }
    )
    names = "The API key and the password are" if new.is_generated else "The API key is"
    output.note(f"{names} not shown again.")
