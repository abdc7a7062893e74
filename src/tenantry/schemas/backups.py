"""Archives, and the jobs that make and restore them."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType, field

from tenantry.schemas.base import ListResponse, PageRequest, PageResponse, Schema

if TYPE_CHECKING:
    from tenantry.backup.collations import CollationReport
    from tenantry.backup.targets import Stored
    from tenantry.catalog.job_queue import OldestBackup

KEEP_DAYS_MAX = 36_500
KEEP_LAST_MAX = 10_000


class JobResponse(Schema, frozen=True):
    """A backup, a restore, a copy, a move, or a check for drift.

    Attributes:
        kind: One of ``backup``, ``verify``, ``restore``, ``replace``, ``clone``, ``move``,
            ``prune``, ``drift``, ``adopt``; a release may add others.
        tenant_id: The tenant; null for the catalog, or for all tenants.
        tenant_name: The name of the tenant when the job began; null without a tenant.
        archive: The name of the archive that it makes or reads; null if it has none.
        server_name: The tenant server on which it makes or keeps a database; null for none.
        database_name: The database that it makes, or keeps until a restore is confirmed; null for
            none.
        state: One of ``queued``, ``running``, ``done``, ``kept`` (done, and the old database is
            kept), ``failed``, ``dropping`` (its database is being removed).
        actor: Who requested it, as in the audit log.
        started_at: When it was queued or started.
        finished_at: When it ended; null before.
        bytes_done: How many bytes of the database were copied so far; updated every second.
        error: Why it failed; null if it did not.
        note: How a move is done, and why; or what a check has found so far. Null for other kinds.
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
    """Which jobs.

    Attributes:
        tenant_id: Only jobs of this tenant.
        is_finished: True for those that have ended, false for the others. Omitted: both.
    """

    tenant_id: UUID | None = None
    is_finished: bool | None = None


class JobPage(PageResponse[JobResponse], frozen=True):
    """One page of the jobs."""


class TenantFailure(Schema, frozen=True):
    """A tenant for which a command failed.

    Attributes:
        error: What failed, for people.
    """

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

    Attributes:
        name: Its name in the folder.
        size: Its size in bytes.
        kind: ``tenant`` or ``catalog``; null if the archive cannot be read.
        tenant_id: The tenant; null for the catalog, or if the archive cannot be read.
        tenant_name: Its name at the time of the backup; null like its id.
        created_at: When it was made; null if the archive cannot be read.
        engine: ``sqlite`` or ``postgresql``; null if the archive cannot be read.
        revision: The revision of the database, as the catalog knew it; null if it did not.
        release: The version of Tenantry that made it; null if the archive cannot be read.
        fault: Why it cannot be used here; null if nothing is wrong.
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
    """Which archives.

    Attributes:
        search: Part of the name of a tenant at the time of its backup, or of an archive.
    """

    search: str | None = None


class ArchivePage(PageResponse[ArchiveResponse], frozen=True):
    """One page of the archives in the target of the settings, the newest first."""


class BackUpRequest(Schema, frozen=True):
    """The tenants to back up.

    Attributes:
        tenant_ids: Their ids. Omitted, also `where`: every tenant, and the catalog.
    """

    tenant_ids: list[UUID] | UnsetType = UNSET
    where: str | UnsetType = UNSET


class QueuedJobs(Schema, frozen=True):
    """How many jobs were queued, or cancelled.

    Attributes:
        count: The number of jobs.
    """

    count: int


class BackupStatusResponse(Schema, frozen=True):
    """The customer that was backed up the longest ago, by the jobs of the last 90 days.

    Attributes:
        oldest_tenant_id: Its id; null if no customer has a backup.
        oldest_tenant_name: Its name; null if no customer has a backup.
        oldest_at: When its newest backup was made; null if no customer has a backup.
        without_count: How many customers have no backup.
    """

    oldest_tenant_id: UUID | None = field(name="oldestCustomerId", default=None)
    oldest_tenant_name: str | None = field(name="oldestCustomerName", default=None)
    oldest_at: datetime | None = None
    without_count: int = 0

    @classmethod
    def of_oldest(cls, found: "OldestBackup | None") -> Self:
        """Return the representation of the oldest backup."""
        if found is None or found.finished_at is None:
            return cls(without_count=found.without_count if found else 0)
        return cls(found.tenant_id, found.tenant_name, found.finished_at, found.without_count)


class VerifyArchiveRequest(Schema, frozen=True):
    """The name of an archive to verify.

    Attributes:
        archive: Its name in the target of the settings.
    """

    archive: str


class PruneArchivesRequest(Schema, frozen=True):
    """Which archives are kept: every one of so many days, and so many of each customer anyway.

    Attributes:
        keep_days: Archives of so many days are kept.
        keep_last: Of each tenant, and of the catalog, so many of the newest are kept anyway.
    """

    keep_days: Annotated[int, Meta(ge=0, le=KEEP_DAYS_MAX)]
    keep_last: Annotated[int, Meta(ge=1, le=KEEP_LAST_MAX)]


class RestoreArchiveRequest(Schema, frozen=True):
    """An archive to restore.

    Attributes:
        archive: Its name in the target of the settings.
        name: The name of a new tenant. Omitted: a tenant that no longer exists comes back with its
            id, name and API keys.
        server: The tenant server of the database. Omitted: one with the engine of the archive.
    """

    archive: str
    name: str | UnsetType = UNSET
    server: str | UnsetType = UNSET


class ReplaceTenantRequest(Schema, frozen=True):
    """The name of an archive, and the exact name of the customer whose data it replaces.

    Attributes:
        archive: Its name in the target of the settings.
        name: The exact name of the tenant, as a confirmation.
    """

    archive: str
    name: str


class CloneTenantRequest(Schema, frozen=True):
    """The name of the new customer, and the tenant server of its database.

    Attributes:
        name: The name of the new tenant: one line of 1 to 100 characters.
        server: A tenant server of the same engine. Omitted: that of the original.
    """

    name: str
    server: str | UnsetType = UNSET


class MoveTenantRequest(Schema, frozen=True):
    """The new tenant server of the customer's database.

    Attributes:
        server: The name of a tenant server of the settings.
    """

    server: str


class MoveTenantsRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """Which customers to move, and their new tenant server: `fromServer`, `where`, or both.

    No other member is taken: a mistyped ``where`` would move every customer of the server.

    Attributes:
        to_server: A tenant server of the settings; tenants that are on it are left out.
        from_server: The tenants of this tenant server. Omitted: of all.
    """

    to_server: str
    from_server: str | UnsetType = UNSET
    where: str | UnsetType = UNSET


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
