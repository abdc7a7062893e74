"""One-time links: invitations, and links to reset a password."""

from datetime import datetime
from typing import ClassVar, Self
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.access.principal import TenantRole
from tenantry.schemas.base import PageResponse, Schema
from tenantry.tenant.links import IssuedLink, OpenLink

PAGE = "/link"
"""The page that a link opens. The secret is in the fragment, which browsers do not send."""


class LinkResponse(Schema, frozen=True):
    """A one-time link that is open, without its secret.

    Attributes:
        user_id: The user whose password the link resets; null for an invitation.
        email: The address of that user, or of the invited person.
        role: What the invited person may do in the tenant; null for a reset, which changes no role.
        expires_at: When the link ends, unless it is used earlier: 72 hours after its creation.
    """

    id: UUID
    user_id: UUID | None
    email: str
    role: str | None
    created_at: datetime
    expires_at: datetime


class LinkPage(PageResponse[LinkResponse], frozen=True):
    """One page of the open links of a tenant."""


class InviteRequest(Schema, frozen=True):
    """The address of a person who is to become a user.

    Attributes:
        role: What the user will be allowed to do; an `editor` by default.
    """

    email: str
    role: TenantRole = TenantRole.EDITOR


class IssuedLinkResponse(LinkResponse, frozen=True):
    """A new one-time link, which is shown only once.

    Attributes:
        url: The link to send to the person. Who opens it first sets the password.
    """

    holds_secret: ClassVar[bool] = True

    url: str

    @classmethod
    def of_issued(cls, issued: IssuedLink, *, base_url: str) -> Self:
        """Return the representation of *issued*, a link of the service at *base_url*."""
        return cls.of(issued.link, url=f"{base_url}{PAGE}#{issued.secret}")


class ShowLinkRequest(Schema, frozen=True):
    """The secret of a link.

    Attributes:
        secret: What follows the `#` in the link.
    """

    secret: str


class UseLinkRequest(ShowLinkRequest, frozen=True):
    """The secret of a link, and what the person has chosen.

    Attributes:
        password: At least as long as the settings say (`TENANTRY_PASSWORD_MIN_LENGTH`: 8), at most
            1,024 characters, and no common one.
        full_name: The name of the invited person: one line of 1 to 200 characters. It is required
            for an invitation, and ignored for a reset.
    """

    password: str
    full_name: str | UnsetType = UNSET


class OpenLinkResponse(Schema, frozen=True):
    """What the person who has a link may know.

    Attributes:
        is_invitation: True if the link creates a user, false if it resets a password.
        full_name: The name of the user; null for an invitation.
        role: What the invited person may do in the tenant; null for a reset.
        expires_at: When the link ends, unless it is used earlier.
    """

    is_invitation: bool
    tenant_name: str
    email: str
    full_name: str | None
    role: str | None
    expires_at: datetime

    @classmethod
    def of_open(cls, found: OpenLink) -> Self:
        """Return the representation of *found*."""
        link = found.link
        return cls(
            is_invitation=link.user_id is None,
            tenant_name=found.tenant.name,
            email=link.email,
            full_name=found.full_name,
            role=link.role,
            expires_at=link.expires_at,
        )
