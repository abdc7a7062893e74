"""Migration runs with their options, their state and their activity.

The history of `schemas.migrations` has a fixed shape; these have what a console needs as well.
"""

from datetime import datetime
from typing import Self
from uuid import UUID

from msgspec import UNSET, UnsetType, field

from tenantry.catalog.activity import Activity
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.schemas.base import ListResponse, PageRequest, PageResponse, Schema
from tenantry.schemas.migrations import WaitingForResponse, waiting_for


class RunPageRequest(PageRequest, frozen=True):
    """Which page of the runs; ``isFinished`` leaves out the others."""

    is_finished: bool | None = None


class RunTenantsRequest(Schema, frozen=True):
    """Which tenants of a run: all that have ended, or only those that failed."""

    only_failed: bool = False


class InWorkResponse(Schema, frozen=True):
    """A customer that is being migrated, and since when."""

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    server: str
    since: datetime


class RunResponse(Schema, frozen=True):
    """One migration run.

    ``failedCount`` includes ``notAttemptedCount``. It has ``waitingFor`` only while tenants wait
    for a server, ``inWork`` only while some are being migrated, and ``heldBecause`` only while no
    process has the files of its plan.
    """

    id: UUID
    state: RunState
    started_at: datetime
    finished_at: datetime | None
    total_count: int
    success_count: int
    failed_count: int
    not_attempted_count: int
    triggered_by: str
    label: str | None
    head: str | None
    waves: list[int] | None
    max_failures: int | None
    stop_reason: str | None
    retry_of: UUID | None
    plan_id: UUID | None
    held_because: str | UnsetType
    waiting_for: list[WaitingForResponse] | UnsetType
    in_work: list[InWorkResponse] | UnsetType

    @classmethod
    def of_run(cls, run: MigrationRun, activity: Activity) -> Self:
        """Return the representation of *run* and its *activity*."""
        in_work = [InWorkResponse.of(one) for one in activity.in_work] or UNSET
        return cls.of(
            run,
            held_because=run.held_because or UNSET,
            waiting_for=waiting_for(activity),
            in_work=in_work,
        )


class RunPage(PageResponse[RunResponse], frozen=True):
    """One page of the runs, the newest first."""


class RunTenantResponse(Schema, frozen=True):
    """The result of one customer in a run. One that was not attempted is unchanged."""

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    database_name: str
    state: str = field(name="status")
    is_attempted: bool
    applied: str | None = field(name="appliedMigrations")
    error: str | None = field(name="errorMessage")
    cause: str | None
    started_at: datetime
    finished_at: datetime | None


class RunTenantList(ListResponse[RunTenantResponse], frozen=True):
    """The results of a run, in the order of the customers' creation."""
