"""Admins, and the audit log."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tenantry.catalog.admins import Admin
from tenantry.catalog.audit import AuditEntry
from tenantry.kit.pages import Page
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


class AuditEntryResponse(Schema, frozen=True):
    """One change: who did what to what."""

    id: UUID
    at: datetime
    actor: str
    action: str
    target: str
    request_id: str


class AuditPage(Schema, frozen=True):
    """One page of the audit log, the newest first."""

    items: list[AuditEntryResponse]
    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of(cls, page: Page[AuditEntry]) -> "AuditPage":
        """Return the representation of *page*."""
        items = [AuditEntryResponse(*msgspec.structs.astuple(entry)) for entry in page.items]
        window = page.window
        return cls(items, window.page, window.size, page.total_count, page.total_pages)
