"""Admins."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.catalog.admins import Admin
from tenantry.schemas.base import Schema


class AdminResponse(Schema, frozen=True):
    """An admin."""

    id: UUID
    email: str
    is_active: bool
    created_at: datetime

    @classmethod
    def of(cls, admin: Admin) -> "AdminResponse":
        """Return the representation of *admin*."""
        return cls(admin.id, admin.email, admin.is_active, admin.created_at)


class AdminList(Schema, frozen=True):
    """The admins."""

    items: list[AdminResponse]


class CreateAdminRequest(Schema, frozen=True):
    """A new admin."""

    email: str
    password: str


class UpdateAdminRequest(Schema, frozen=True):
    """What is to change of an admin; what is left out stays."""

    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET
