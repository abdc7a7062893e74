"""Migration runs. The two spellings of a status are the seed's."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tenantry.catalog.runs import MigrationRun, TenantMigration
from tenantry.fleet.status import SchemaStatus
from tenantry.schemas.base import Schema


class MigrateAllRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """A request that must not ask anything: a mistyped member would migrate the fleet."""


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
        return cls(**msgspec.structs.asdict(run), details=details)


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
