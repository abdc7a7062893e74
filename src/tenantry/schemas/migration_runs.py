"""Migration runs as clients of the history see them: state, progress, waves, tenants."""

from datetime import datetime
from typing import ClassVar, Self
from uuid import UUID

from msgspec import UNSET, UnsetType, field

from tenantry.catalog.activity import Activity, TenantInWork
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.schemas.base import ListResponse, PageRequest, PageResponse, Schema
from tenantry.schemas.migrations import (
    MigrationRunDetailResponse,
    WaitingForResponse,
    holding,
    waiting_for,
)


class RunPageRequest(PageRequest, frozen=True):
    """Which page of the runs.

    Attributes:
        is_finished: True for runs that have ended, false for the others. Omitted: both.
    """

    is_finished: bool | None = None


class RunTenantsRequest(Schema, frozen=True):
    """Which tenants of a run.

    Attributes:
        only_failed: True for those that failed, false for all that have ended.
    """

    only_failed: bool = False


class InWorkResponse(Schema, frozen=True):
    """A customer that is being migrated, and since when."""

    represents: ClassVar[type] = TenantInWork

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    server: str
    since: datetime


class WaveDetailResponse(Schema, frozen=True):
    """What is known of a wave, besides its size.

    Attributes:
        where: The condition that names its customers; null if it is a number.
        max_failures: Its own failure budget; null without one.
    """

    where: str | None
    max_failures: int | None


class RunResponse(Schema, frozen=True):
    """One migration run.

    Attributes:
        state: ``running``, ``holding``, ``stopping`` or ``cancelling``; at its end ``success``,
            ``failed``, ``stopped`` (by its failure budget or its last wave) or ``cancelled``.
        success_count: The tenants at the head revision, also those where nothing was pending.
        triggered_by: Who started it, as in the audit log.
        label: A label for the history; null without one.
        held_because: Why it is holding: after a wave, or because no process has its files;
            omitted if it is not.
        waiting_for: The tenant servers that do not answer; omitted if no tenant waits for one.
        in_work: The tenants that are being migrated; omitted if there are none.
        holding_wave: The wave after which it holds, from 1; omitted otherwise.
        wave_details: One for each wave; omitted if no wave names its tenants or has a budget.
        undoes: The run that it undoes; null if it upgrades.
        abandoned: The tenants that were in work in a worker without heartbeats since, until another
            one claims them; omitted if there are none.
    """

    represents: ClassVar[type] = MigrationRun

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
    wave_details: list[WaveDetailResponse] | UnsetType
    max_failures: int | None
    stop_reason: str | None
    retry_of: UUID | None
    plan_id: UUID | None
    holds: list[int] | None
    undoes: UUID | None
    held_because: str | UnsetType
    holding_wave: int | UnsetType
    waiting_for: list[WaitingForResponse] | UnsetType
    in_work: list[InWorkResponse] | UnsetType
    abandoned: list[InWorkResponse] | UnsetType

    @classmethod
    def of_run(cls, run: MigrationRun, activity: Activity) -> Self:
        """Return the representation of *run* and its *activity*."""
        in_work = [InWorkResponse.of(one) for one in activity.in_work] or UNSET
        return cls.of(
            run,
            wave_details=[WaveDetailResponse(**one) for one in run.wave_details or ()] or UNSET,
            **holding(run),
            waiting_for=waiting_for(activity),
            in_work=in_work,
            abandoned=[InWorkResponse.of(one) for one in activity.abandoned] or UNSET,
        )


class RunPage(PageResponse[RunResponse], frozen=True):
    """One page of the runs, the newest first."""


class RunTenantResponse(Schema, frozen=True):
    """The result of one customer in a run. One that was not attempted is unchanged.

    Unless a process that was frozen has it in work, and commits later, as the own log then says.

    Attributes:
        is_attempted: False if the run has not started the tenant.
    """

    represents: ClassVar[type] = MigrationRunDetailResponse

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
