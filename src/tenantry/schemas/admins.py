"""Admins."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.schemas.base import ListResponse, Schema


class AdminResponse(Schema, frozen=True):
    """An admin."""

    id: UUID
    email: str
    is_active: bool
    created_at: datetime


class AdminList(ListResponse[AdminResponse], frozen=True):
    """The admins."""


class CreateAdminRequest(Schema, frozen=True):
    """A new admin."""

    email: str
    password: str


class UpdateAdminRequest(Schema, frozen=True):
    """The changes of an admin; omitted members are not changed."""

    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET
