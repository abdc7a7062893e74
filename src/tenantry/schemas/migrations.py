"""Migration runs. The two spellings of a status are the seed's."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.catalog.runs import Cause, MigrationRun, TenantMigration
from tenantry.fleet.dry_run import Preview
from tenantry.fleet.run_options import RunOptions
from tenantry.fleet.status import SchemaStatus
from tenantry.schemas.base import PageRequest, Schema


class Details(StrEnum):
    """Which details of a run are told: of all customers, of the failed ones, or none."""

    ALL = "all"
    FAILED = "failed"
    NONE = "none"


class MigrateAllRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """How a run is to go: without a member, over every active customer, all at once.

    No other member is taken: a mistyped ``dryRun`` would migrate the fleet.
    """

    tenant_ids: list[UUID] | UnsetType = UNSET
    retry_of: UUID | UnsetType = UNSET
    waves: list[int | str] | UnsetType = UNSET
    max_failures: int | str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    dry_run: bool = False
    rehearse: bool = False

    @property
    def options(self) -> RunOptions:
        """The options that are given."""
        members = ("tenant_ids", "retry_of", "waves", "max_failures", "label")
        given = {name: getattr(self, name) for name in members}
        return RunOptions(**{name: one for name, one in given.items() if one is not UNSET})


class HistoryRequest(Schema, frozen=True):
    """Which details of a run are told."""

    details: Details = Details.ALL


class HistoryPageRequest(PageRequest, frozen=True):
    """Which page of the history, and which details of each run."""

    details: Details = Details.ALL


class MigrationDetailResponse(Schema, frozen=True):
    """One customer's part in a run, as the call itself tells it."""

    customer_id: UUID
    customer_name: str
    status: str
    error: str | None

    @classmethod
    def of(cls, part: TenantMigration) -> "MigrationDetailResponse":
        """Return the representation of *part*."""
        return cls(part.tenant_id, part.tenant_name, part.state.lower(), part.error)


class MigrationResultResponse(Schema, frozen=True):
    """What became of a run."""

    total: int
    success: int
    failed: int
    details: list[MigrationDetailResponse]

    @classmethod
    def of(cls, run: MigrationRun, parts: Sequence[TenantMigration]) -> "MigrationResultResponse":
        """Return the representation of a run that has ended."""
        details = [MigrationDetailResponse.of(part) for part in parts]
        return cls(run.total_count, run.success_count, run.failed_count, details)


class MigrationRunDetailResponse(Schema, frozen=True):
    """One customer's part in a run, as the history tells it."""

    customer_id: UUID
    customer_name: str
    database_name: str
    status: str
    applied_migrations: str | None
    error_message: str | None
    started_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, part: TenantMigration) -> "MigrationRunDetailResponse":
        """Return the representation of a *part* that has ended."""
        assert part.started_at is not None, "what has ended has begun"
        return cls(
            part.tenant_id,
            part.tenant_name,
            part.database_name,
            part.state,
            part.applied,
            part.error,
            part.started_at,
            part.finished_at,
        )


class MigrationRunStateResponse(Schema, frozen=True):
    """One recorded call of migrate-all, without its details."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    total_count: int
    success_count: int
    failed_count: int
    triggered_by: str

    @classmethod
    def of(cls, run: MigrationRun) -> "MigrationRunStateResponse":
        """Return the representation of *run*."""
        return cls(**_members(run))


class MigrationRunResponse(Schema, frozen=True):
    """One recorded call of migrate-all."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    total_count: int
    success_count: int
    failed_count: int
    triggered_by: str
    details: list[MigrationRunDetailResponse]

    @classmethod
    def of(cls, run: MigrationRun, parts: Sequence[TenantMigration]) -> "MigrationRunResponse":
        """Return the representation of *run* with its *parts*."""
        details = [MigrationRunDetailResponse.of(part) for part in parts]
        return cls(**_members(run), details=details)


class MigrationPreviewDetailResponse(Schema, frozen=True):
    """What a run would find at one customer."""

    customer_id: UUID
    customer_name: str
    current_revision: str | None
    pending_migrations: str | None
    error: str | None


class MigrationPreviewResponse(Schema, frozen=True):
    """What a run would find: the answer to ``dryRun``."""

    total: int
    pending: int
    up_to_date: int
    failed: int
    details: list[MigrationPreviewDetailResponse]

    @classmethod
    def of(cls, preview: Preview) -> "MigrationPreviewResponse":
        """Return the representation of *preview*."""
        details = [
            MigrationPreviewDetailResponse(
                one.tenant_id,
                one.tenant_name,
                one.current_revision,
                one.pending_migrations,
                one.error,
            )
            for one in preview.details
        ]
        return cls(preview.total, preview.pending, preview.up_to_date, preview.failed, details)


class FailureCauseResponse(Schema, frozen=True):
    """Errors of one kind, and a customer that has one."""

    cause: str
    count: int
    sample_customer_id: UUID


class FailureCauseList(Schema, frozen=True):
    """Why customers failed in a run, the commonest cause first."""

    items: list[FailureCauseResponse]

    @classmethod
    def of(cls, causes: Sequence[Cause]) -> "FailureCauseList":
        """Return the representation of *causes*."""
        return cls(
            [FailureCauseResponse(one.cause, one.count, one.sample_tenant_id) for one in causes]
        )


class RevisionCountResponse(Schema, frozen=True):
    """How many customers were last seen at a revision; null: never seen."""

    revision: str | None
    count: int


class SchemaStatusResponse(Schema, frozen=True):
    """Where the databases of the active customers were last seen."""

    head: str
    total: int
    up_to_date: int
    behind: int
    unknown: int
    revisions: list[RevisionCountResponse]

    @classmethod
    def of(cls, status: SchemaStatus) -> "SchemaStatusResponse":
        """Return the representation of *status*."""
        counts = [RevisionCountResponse(one.revision, one.count) for one in status.revisions]
        return cls(
            status.head,
            status.total,
            status.up_to_date,
            status.behind,
            status.unknown,
            counts,
        )


class MigrationRunPage(Schema, frozen=True):
    """One page of the history."""

    items: list[MigrationRunResponse]
    page: int
    page_size: int
    total_count: int
    total_pages: int


def _members(run: MigrationRun) -> dict[str, Any]:
    return {name: getattr(run, name) for name in MigrationRunStateResponse.__struct_fields__}
