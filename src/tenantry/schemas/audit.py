"""The audit log on the wire."""

from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tenantry.db.audit_log import TARGET_CHARS_MAX, AuditEntry, AuditFilter
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Window
from tenantry.schemas.base import AtLeastOne, Instant, PageRequest, PageResponse, Schema

Sought = Annotated[str, msgspec.Meta(max_length=TARGET_CHARS_MAX)]


class TenantAuditExportRequest(Schema, frozen=True):
    """Filters of a tenant's audit log; an omitted one matches all entries."""

    represents: ClassVar[type] = AuditFilter

    actor: Sought | None = None
    action: Sought | None = None
    target: Sought | None = None
    since: Instant | None = None
    until: Instant | None = None

    @property
    def wanted(self) -> AuditFilter:
        """The filter."""
        return msgspec.convert(self, AuditFilter, from_attributes=True)


class TenantAuditRequest(TenantAuditExportRequest, frozen=True):
    """A page of a tenant's audit log, and its filters."""

    represents: ClassVar[type] = PageRequest

    page: AtLeastOne = 1
    page_size: AtLeastOne = PAGE_SIZE_DEFAULT

    @property
    def window(self) -> Window:
        """The part of the list that is wanted."""
        return Window(self.page, self.page_size)


class AuditExportRequest(TenantAuditExportRequest, frozen=True):
    """Filters of the service's audit log; an omitted one matches all entries."""

    tenant_id: UUID | None = None


class AuditRequest(AuditExportRequest, frozen=True):
    """A page of the service's audit log, and its filters."""

    represents: ClassVar[type] = PageRequest

    page: AtLeastOne = 1
    page_size: AtLeastOne = PAGE_SIZE_DEFAULT

    @property
    def window(self) -> Window:
        """The part of the list that is wanted."""
        return Window(self.page, self.page_size)


class AuditChange(Schema, frozen=True):
    """A field that changed. A secret or a long text has no values here.

    Attributes:
        field: The name of the field.
        old: The value before the change; null if there was none. Omitted for a secret or a long
            text.
        new: The value after the change; null if there is none. Omitted for a secret or a long text.
    """

    field: str
    old: str | int | bool | UnsetType | None = UNSET
    new: str | int | bool | UnsetType | None = UNSET


class AuditEntryResponse(AuditEntry, Schema, frozen=True):
    """Who did what, when, from where, and which values changed.

    Attributes:
        changes: The fields that changed; empty if none did.
    """

    changes: list[AuditChange]  # type: ignore[assignment]

    @classmethod
    def of(cls, source: AuditEntry, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(
            source, changes=msgspec.convert(source.changes, list[AuditChange]), **more
        )


class AuditPage(PageResponse[AuditEntryResponse], frozen=True):
    """One page of the audit log, the newest first."""


_encoder = msgspec.json.Encoder()


def json_lines(entries: list[AuditEntry]) -> bytes:
    """Return *entries* as JSON lines."""
    return _encoder.encode_lines([AuditEntryResponse.of(entry) for entry in entries])
