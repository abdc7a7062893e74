"""Archives, and the jobs that make and restore them."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from tenantry.schemas.base import ListResponse, PageRequest, PageResponse, Schema

if TYPE_CHECKING:
    from tenantry.backup.collations import CollationReport
    from tenantry.backup.targets import Stored

KEEP_DAYS_MAX = 36_500
KEEP_LAST_MAX = 10_000


class JobResponse(Schema, frozen=True):
    """A backup, a restore, a copy, a move, or a check for drift.

    `note` says how a move is done, and why; or what a check has found so far.
    """

    id: UUID
    kind: str
    tenant_id: UUID | None
    tenant_name: str | None
    archive: str | None
    server_name: str | None
    database_name: str | None
    state: str
    actor: str
    started_at: datetime
    finished_at: datetime | None
    bytes_done: int
    error: str | None
    note: str | None


class JobPageRequest(PageRequest, frozen=True):
    """Which jobs: of a tenant; those that have finished, or have not."""

    tenant_id: UUID | None = None
    is_finished: bool | None = None


class JobPage(PageResponse[JobResponse], frozen=True):
    """One page of the jobs."""


class TenantFailure(Schema, frozen=True):
    """A tenant for which a command failed."""

    tenant_name: str
    error: str


class JobList(ListResponse[JobResponse], frozen=True):
    """The jobs of one command, and the tenants for which it failed."""

    failed: list[TenantFailure]


class RestoredMissing(Schema, frozen=True):
    """How many tenants were restored, and which were not."""

    message: str
    failed: list[TenantFailure]


class MovedResponse(Schema, frozen=True):
    """A tenant of a move: where it is now, and why it was not moved, if it was not.

    `obstacle` says why it was read-only during the copy; null if it was moved online.
    """

    tenant_id: UUID
    tenant_name: str
    server_name: str
    database_name: str
    rejected_seconds: float | None
    is_online: bool | None
    obstacle: str | None
    error: str | None


class MovedList(ListResponse[MovedResponse], frozen=True):
    """The tenants of one command."""


class PlannedMoveResponse(Schema, frozen=True):
    """How a tenant would be moved: online, or, with an obstacle, read-only during the copy."""

    tenant_id: UUID
    tenant_name: str
    server_name: str
    is_online: bool | None
    obstacle: str | None
    error: str | None


class PlannedMoveList(ListResponse[PlannedMoveResponse], frozen=True):
    """The tenants of one command."""


class ArchiveResponse(Schema, frozen=True):
    """An archive in the folder of archives.

    `fault` says why the archive cannot be used here; null if nothing is wrong.
    """

    name: str
    size: int
    kind: str | None
    tenant_id: UUID | None
    tenant_name: str | None
    created_at: datetime | None
    engine: str | None
    revision: str | None
    release: str | None
    fault: str | None

    @classmethod
    def of(cls, source: "Stored", **more: Any) -> Self:
        """Return the representation of *source*."""
        members: dict[str, Any] = {"name": source.name, "size": source.size, "fault": source.fault}
        for name in cls.__struct_fields__:
            members.setdefault(name, getattr(source.header, name, None))
        return cls(**members | more)


class ArchiveList(ListResponse[ArchiveResponse], frozen=True):
    """The archives in a folder, the newest first."""


class ArchivePageRequest(PageRequest, frozen=True):
    """Which archives: ``search`` is part of the name of a tenant, or of an archive."""

    search: str | None = None


class ArchivePage(PageResponse[ArchiveResponse], frozen=True):
    """One page of the archives in the target of the settings, the newest first."""


class BackUpRequest(Schema, frozen=True):
    """The tenants to back up; without ``tenantIds`` every tenant, and the catalog."""

    tenant_ids: list[UUID] | UnsetType = UNSET


class QueuedJobs(Schema, frozen=True):
    """How many jobs were queued, or cancelled."""

    count: int


class VerifyArchiveRequest(Schema, frozen=True):
    """The name of an archive to verify."""

    archive: str


class PruneArchivesRequest(Schema, frozen=True):
    """Which archives are kept: every one of so many days, and so many of each customer anyway."""

    keep_days: Annotated[int, Meta(ge=0, le=KEEP_DAYS_MAX)]
    keep_last: Annotated[int, Meta(ge=1, le=KEEP_LAST_MAX)]


class RestoreArchiveRequest(Schema, frozen=True):
    """The name of an archive to restore as a new tenant of this name.

    Without a name, a tenant that no longer exists comes back with its id, name and API keys.
    """

    archive: str
    name: str | UnsetType = UNSET
    server: str | UnsetType = UNSET


class ReplaceTenantRequest(Schema, frozen=True):
    """The name of an archive, and the exact name of the customer whose data it replaces."""

    archive: str
    name: str


class CloneTenantRequest(Schema, frozen=True):
    """The name of the new customer, and the tenant server of its database."""

    name: str
    server: str | UnsetType = UNSET


class MoveTenantRequest(Schema, frozen=True):
    """The new tenant server of the customer's database."""

    server: str


class MoveTenantsRequest(Schema, frozen=True):
    """The tenant server to empty, and the new one of its customers."""

    from_server: str
    to_server: str


class VerifiedResponse(Schema, frozen=True):
    """A verified archive: its rows in all, and its size."""

    name: str
    tables: int
    rows: int
    database_bytes: int


class CollationReportResponse(Schema, frozen=True):
    """How many databases and indexes were brought up to date, and which were not: the first 100."""

    checked: int
    refreshed: int
    indexes: int
    failed_count: int
    failed: list[TenantFailure]

    @classmethod
    def of_report(cls, report: "CollationReport") -> Self:
        """Return the representation of *report*."""
        return cls.of(report, failed=[TenantFailure(*one) for one in report.failed])
