"""``tenantry secret``: the secret key that encrypts the signing keys."""

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.printing import output
from tenantry.schemas.base import Schema

group = new_group("Manage the secret key.")


class SecretRotation(Schema, frozen=True):
    """The result of a rotation: how many signing keys were encrypted anew."""

    resealed: int


@group.command("rotate")
async def rotate() -> None:
    """Encrypt the signing keys with TENANTRY_SECRET_KEY instead of TENANTRY_SECRET_KEY_OLD.

    Every process must already have both. No login ends. A backup needs the key of its time.
    """
    async with session.opened() as services:
        resealed = await services.signing_keys.reseal(session.context())
    if output.shown_as_json(SecretRotation(resealed)):
        return
    output.show_attributes({"signing keys encrypted anew": resealed})
    output.note("Restart every process without TENANTRY_SECRET_KEY_OLD.")
    output.note("Keep the old key with the backups that were made before.")
