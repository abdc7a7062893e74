"""Plans of migration runs."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Literal, Self
from uuid import UUID

from msgspec import field

from tenantry.catalog.stored_plans import PlanCause, PlanTenant, StoredPlan
from tenantry.catalog.waves import CREATION
from tenantry.fleet.pending_revisions import planned_revisions
from tenantry.schemas.base import PageRequest, PageResponse, Schema
from tenantry.schemas.migrations import Details
from tenantry.schemas.previews import (
    MigrationPreviewDetailResponse,
    PendingRevisionResponse,
    SlowTenantResponse,
)

# Options that earlier releases have not stored.
_LATER = {
    "order": CREATION,
    "wave_max_failures": None,
    "hold": False,
    "max_error_rate": None,
    "where": None,
}


class PlanPageRequest(PageRequest, frozen=True):
    """Which page of the plans."""


class PlanRequest(Schema, frozen=True):
    """The details of a plan to include.

    Attributes:
        details: Which tenants are included.
    """

    details: Details = Details.ALL


class PlanResponse(Schema, frozen=True):
    """What a dry run or a rehearsal has found, to be run exactly so.

    Attributes:
        waves: The waves of the run, as they were requested; null without waves.
        order: The order of the tenants that no wave names.
        wave_max_failures: The failure budget of each wave, as it was requested; null by default.
        max_failures: The failure budget, as it was requested; null without a limit.
        max_error_rate: Above which error rate the run holds after a wave; null without a limit.
        only_behind: Whether tenants at the head are left out.
        hold: After which waves the run holds: all, none, those with these numbers, or, with
            `check`, all until the operator's check succeeds.
        retry_of: The earlier run of which it retries the failures; null if it is no retry.
        undoes: The run that it undoes; null if it upgrades.
        where: The expression that selects its tenants; null without one.
        estimated_ms: How many milliseconds one process needs for the run by the durations of the
            rehearsal; null without one, or if a pending tenant was not rehearsed.
    """

    represents: ClassVar[type] = StoredPlan

    id: UUID
    digest: str
    created_at: datetime
    expires_at: datetime
    actor: str
    is_rehearsed: bool
    label: str | None
    head: str
    waves: list[int | str] | None
    order: str
    wave_max_failures: list[int | str] | None
    max_failures: int | str | None
    only_behind: bool
    hold: bool | list[int] | Literal["check"]
    max_error_rate: str | None
    retry_of: UUID | None
    undoes: UUID | None
    where: str | None
    total_count: int
    pending_count: int
    passed_count: int
    up_to_date_count: int
    failed_count: int
    run_id: UUID | None
    estimated_ms: int | None

    @classmethod
    def of(cls, source: StoredPlan, **more: Any) -> Self:
        """Return the representation of a plan."""
        options = _LATER | source.options[0]
        names = ("waves", "max_failures", "only_behind", *_LATER)
        chosen = {name: options[name] for name in names}
        for name in ("retry_of", "undoes"):
            run_id = options.get(name)
            chosen[name] = None if run_id is None else UUID(run_id)
        return super().of(source, **chosen, **more)


class PlanPage(PageResponse[PlanResponse], frozen=True):
    """One page of the plans, the newest first."""


class PlannedRevisionResponse(PendingRevisionResponse, frozen=True):
    """A pending revision of a plan."""

    sql_sha256: str | None


class PlannedFileResponse(Schema, frozen=True):
    """A file that the revisions of a plan consist of, and a hash of its content.

    Attributes:
        name: Its path below the folder of the revisions.
        sha256: The SHA-256 of its content, in hex.
    """

    name: str
    sha256: str


class PlanCauseResponse(Schema, frozen=True):
    """How many customers of a plan have errors of one kind, and one that has it."""

    represents: ClassVar[type] = PlanCause

    cause: str
    count: int
    sample_tenant_id: UUID = field(name="sampleCustomerId")


class PlanDetailResponse(PlanResponse, frozen=True):
    """A plan with its revisions, its files, the causes of errors, and each customer.

    Attributes:
        revisions: The pending revisions, once for each engine.
        files: The files of the revisions.
        causes: The causes of errors, the commonest first; at most 1,000.
        slowest: Of a rehearsal: the tenants that took longest, the slowest first; at most 10.
        details: What was found at each tenant, in the order of their creation.
    """

    revisions: list[PlannedRevisionResponse]
    files: list[PlannedFileResponse]
    causes: list[PlanCauseResponse]
    slowest: list[SlowTenantResponse]
    details: list[MigrationPreviewDetailResponse]

    @classmethod
    def of_plan(
        cls, plan: StoredPlan, causes: Iterable[PlanCause], tenants: Iterable[PlanTenant]
    ) -> Self:
        """Return the representation of *plan*."""
        return cls.of(
            plan,
            revisions=[PlannedRevisionResponse.of(one) for one in planned_revisions(plan)],
            files=[PlannedFileResponse(one["name"], one["sha256"]) for one in plan.files],
            causes=[PlanCauseResponse.of(one) for one in causes],
            slowest=[SlowTenantResponse.of(one) for one in plan.slow_tenants],
            details=[
                MigrationPreviewDetailResponse(
                    one.tenant_id, one.tenant_name, one.position, one.pending, one.error
                )
                for one in tenants
            ],
        )
