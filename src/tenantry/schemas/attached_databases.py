"""Attached databases, as admins see them; as responses, they are tenants."""

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import Schema


class ReplaceUrlRequest(Schema, frozen=True):
    """The URL of an attached database.

    Attributes:
        url: `postgresql://USER:PASSWORD@HOST/DATABASE`, without parameters that name files. It is
            stored encrypted, and never returned.
    """

    url: str


class AttachDatabaseRequest(ReplaceUrlRequest, frozen=True):
    """A database that is to be attached.

    Attributes:
        name: One line of 1 to 100 characters that no tenant has; upper and lower case are the same.
        labels: Its labels by their keys, at most 20. Omitted: none.
    """

    name: str
    labels: dict[str, str] | UnsetType = UNSET
