"""What a migration run would find: the answer to a dry run."""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from tenantry.catalog.durations import Duration
from tenantry.catalog.stored_plans import SlowTenant
from tenantry.fleet.pending_revisions import LostData, PendingRevision, RunsAs
from tenantry.schemas.base import Schema


class MigrationPreviewDetailResponse(Schema, frozen=True):
    """What a run would find at one customer.

    Attributes:
        current_revision: The revision of its database; null if it is unknown.
        pending_migrations: The pending revisions, separated by commas; null if nothing is pending,
            empty if that is unknown.
        error: Why the revision is unknown, or why the rehearsal failed or was not possible; null
            without an error.
    """

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    current_revision: str | None
    pending_migrations: str | None
    error: str | None


class FindingResponse(Schema, frozen=True):
    """A hint: a statement can block requests, lose data, fail, or break the running release.

    Attributes:
        rule: The name of the rule, which stays the same in later releases.
        message: What can happen, and what to do instead.
        statement_number: The place of the statement in the revision, from 1; 0 if the finding is
            about the file.
        table: The table, index, type or schema that the statement names; null if it names none.
    """

    rule: str
    message: str
    statement_number: int
    table: str | None


class LostDataResponse(Schema, frozen=True):
    """What is lost when a revision is undone: a table, or a column of it."""

    represents: ClassVar[type] = LostData

    table: str
    column: str | None
    count: int
    is_more: bool
    tenant_count: int = field(name="customerCount")


class PendingRevisionResponse(Schema, frozen=True):
    """A pending revision, and the SQL that a run would send.

    Attributes:
        revision: Its id.
        runs_as: `recorded`; or `live`, or `autocommit`: live, and outside a transaction.
    """

    represents: ClassVar[type] = PendingRevision

    revision: str
    engine: str
    runs_as: RunsAs
    live_reason: str | None
    sql: str | None
    is_cut: bool
    findings: list[FindingResponse]
    lost: list[LostDataResponse]


class DurationResponse(Schema, frozen=True):
    """How long earlier customers took for these revisions, in milliseconds."""

    represents: ClassVar[type] = Duration

    pending_migrations: str
    median_ms: int
    tenant_count: int = field(name="customerCount")


class SlowTenantResponse(Schema, frozen=True):
    """A customer whose rehearsal took long.

    Attributes:
        tenant_name: Its name.
    """

    represents: ClassVar[type] = SlowTenant

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="tenant")
    duration_ms: int


class PlanReference(Schema, frozen=True):
    """A stored plan, and the hash of all that a run of it depends on.

    Attributes:
        digest: A hash in hex of everything that a run with it depends on.
    """

    id: UUID
    digest: str


class MigrationPreviewResponse(Schema, frozen=True):
    """What a run would find: the answer to ``dryRun``.

    Attributes:
        total: The number of tenants: the sum of the next three.
        pending: The tenants with pending revisions.
        up_to_date: The tenants at the head.
        failed: The tenants with an unknown revision, or a failed rehearsal.
        details: What was found at each tenant, in the order of their creation.
        revisions: The pending revisions with their SQL, once for each engine.
        durations: How long earlier tenants took, in the last 5 runs.
        expected_ms: How many milliseconds the run takes by the durations of earlier tenants, in the
            answering process alone; null if some are not known.
        plan: The plan that was stored, which can be started; null if the files of the revisions
            cannot be read, or were replaced during the dry run.
        slowest: Of a rehearsal: the tenants that took longest, the slowest first; at most 10.
        estimated_ms: How many milliseconds one process needs for the run by the durations of the
            rehearsal; null without one, or if a pending tenant was not rehearsed.
    """

    total: int
    pending: int
    up_to_date: int
    failed: int
    details: list[MigrationPreviewDetailResponse]
    revisions: list[PendingRevisionResponse]
    durations: list[DurationResponse]
    expected_ms: int | None
    plan: PlanReference | None
    slowest: list[SlowTenantResponse]
    estimated_ms: int | None
