"""Migration runs. The API has two spellings of a status: `success` and `Success`.

The history has a fixed shape; `RunResponse` has what a console needs as well.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self
from uuid import UUID

from msgspec import UNSET, UnsetType, field

from tenantry.catalog.activity import Activity, AwayServer
from tenantry.catalog.run_results import Cause
from tenantry.catalog.runs import MigrationRun, RunTenant
from tenantry.fleet.run_options import RunOptions
from tenantry.fleet.status import PlacedCount, SchemaStatus
from tenantry.schemas.base import ListResponse, PageRequest, PageResponse, Schema, sent_members


class Details(StrEnum):
    """The details to include: of all customers, of failed ones, or none."""

    ALL = "all"
    FAILED = "failed"
    NONE = "none"


_NO_OPTIONS = {"dry_run", "rehearse", "plan_id", "passed_only"}


class MigrateAllRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """How a run is to go: without a member, over every active customer, all at once.

    No other member is taken: a mistyped ``dryRun`` would migrate the fleet.

    Attributes:
        dry_run: True to change nothing, and return what a run would find.
        rehearse: With `dry_run`: true to execute the pending revisions, and roll them back.
        plan_id: The id of the plan of a dry run: the run is exactly this plan, or is rejected.
        passed_only: With `plan_id`: true to leave out the tenants that a rehearsal has not passed.
    """

    represents: ClassVar[type] = RunOptions

    tenant_ids: list[UUID] | UnsetType = UNSET
    retry_of: UUID | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    waves: list[int | str] | UnsetType = UNSET
    order: str | UnsetType = UNSET
    wave_max_failures: list[int | str] | UnsetType = UNSET
    max_failures: int | str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    only_behind: bool = False
    where: str | UnsetType = UNSET
    hold: bool | list[int] | Literal["check"] = False
    max_error_rate: str | UnsetType = UNSET
    dry_run: bool = False
    rehearse: bool = False
    plan_id: UUID | None = field(name="plan", default=None)
    passed_only: bool = False

    @property
    def options(self) -> RunOptions:
        """The options that are given."""
        sent = sent_members(self)
        return RunOptions(**{name: one for name, one in sent.items() if name not in _NO_OPTIONS})


class ContinueRequest(Schema, frozen=True):
    """The wave after which the run holds, as the caller has seen it.

    Attributes:
        wave: Its number, from 1.
    """

    wave: int


_NOT_HOLDING = dict.fromkeys(("run_id", "held_because", "holding_wave"), UNSET)


class HistoryRequest(Schema, frozen=True):
    """The details of a run to include.

    Attributes:
        details: Of which tenants the results are included.
    """

    details: Details = Details.ALL


class HistoryPageRequest(PageRequest, frozen=True):
    """Which page of the history, and which details of each run.

    Attributes:
        details: Of which tenants the results are included.
    """

    details: Details = Details.ALL


class MigrationDetailResponse(Schema, frozen=True):
    """The result of one customer, in the response of migrate-all.

    Attributes:
        status: ``success`` or ``failed``.
        error: Why it failed, or was not attempted; null for a success.
    """

    represents: ClassVar[type] = RunTenant

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    status: str
    error: str | None

    @classmethod
    def of(cls, source: RunTenant, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source, status=source.state.lower(), **more)


class MigrationResultTotals(Schema, frozen=True):
    """The result of a run, without its details.

    Attributes:
        total_count: The number of tenants in the run.
        success_count: The tenants at the head revision, also those where nothing was pending.
        failed_count: The tenants that failed, or were not attempted.
        run_id: The run, if it has not ended because it holds after a wave.
        holding_wave: The wave after which it holds, from 1.
        held_because: Why it holds.
    """

    total_count: int = field(name="total")
    success_count: int = field(name="success")
    failed_count: int = field(name="failed")
    run_id: UUID | UnsetType
    held_because: str | UnsetType
    holding_wave: int | UnsetType

    @classmethod
    def of_result(cls, run: MigrationRun, **more: Any) -> Self:
        """Return the representation of a run that has ended, or holds after a wave."""
        is_held = run.holding_wave is not None
        held = {"run_id": run.id, **holding(run)} if is_held else _NOT_HOLDING
        return cls.of(run, **{**held, **more})


class MigrationResultResponse(MigrationResultTotals, frozen=True):
    """The result of a run.

    Attributes:
        details: The result of each tenant, in the order of their creation.
    """

    details: list[MigrationDetailResponse]

    @classmethod
    def of_run(cls, run: MigrationRun, items: Sequence[RunTenant]) -> Self:
        """Return the representation of a run that has ended, or holds after a wave."""
        return cls.of_result(run, details=[MigrationDetailResponse.of(item) for item in items])


class MigrationRunDetailResponse(Schema, frozen=True):
    """The result of one customer, in the history.

    Attributes:
        state: ``Success`` or ``Failed``; before the end ``Waiting`` for its wave, or ``Pending``.
        error: Why it failed, or was not attempted; null for a success.
        started_at: When it was started; for one that was not attempted, when it was given up.
        finished_at: When it ended; null before.
    """

    represents: ClassVar[type] = RunTenant

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    database_name: str
    state: str = field(name="status")
    applied: str | None = field(name="appliedMigrations")
    error: str | None = field(name="errorMessage")
    started_at: datetime
    finished_at: datetime | None


class WaitingForResponse(AwayServer, Schema, frozen=True):
    """A tenant server that does not answer, and since when; its tenants wait."""


class MigrationRunStateResponse(Schema, frozen=True):
    """One recorded call of migrate-all, without its details.

    Attributes:
        success_count: The tenants at the head revision, also those where nothing was pending.
        triggered_by: Who started it, as in the audit log.
        plan_id: The plan that it runs; omitted without one.
        held_because: Why it is holding; omitted if it is not.
        waiting_for: The tenant servers that do not answer; omitted if no tenant waits for one.
        holding_wave: The wave after which it holds, from 1; omitted otherwise.
        undoes: The run that it undoes; omitted if it upgrades.
    """

    represents: ClassVar[type] = MigrationRun

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    total_count: int
    success_count: int
    failed_count: int
    triggered_by: str
    plan_id: UUID | UnsetType
    undoes: UUID | UnsetType
    held_because: str | UnsetType
    holding_wave: int | UnsetType
    waiting_for: list[WaitingForResponse] | UnsetType

    @classmethod
    def of_state(cls, run: MigrationRun, activity: Activity) -> Self:
        """Return the representation of *run* and its *activity*."""
        return cls.of(run, **planned(run), waiting_for=waiting_for(activity))


class MigrationRunResponse(MigrationRunStateResponse, frozen=True):
    """One recorded call of migrate-all.

    Attributes:
        details: The result of each tenant that has ended, in the order of their creation.
    """

    details: list[MigrationRunDetailResponse]

    @classmethod
    def of_run(
        cls,
        run: MigrationRun,
        items: Sequence[RunTenant],
        activity: Activity,
    ) -> Self:
        """Return the representation of *run* with its *items*; see `of_state`."""
        details = [MigrationRunDetailResponse.of(item) for item in items]
        return cls.of(run, details=details, **planned(run), waiting_for=waiting_for(activity))


class FailureCauseResponse(Schema, frozen=True):
    """Errors of one kind, and a customer that has one."""

    represents: ClassVar[type] = Cause

    cause: str
    count: int
    left: int
    sample_tenant_id: UUID = field(name="sampleCustomerId")


class FailureCauseList(ListResponse[FailureCauseResponse], frozen=True):
    """Why customers failed in a run, the commonest cause first."""


class RevisionCountResponse(PlacedCount, Schema, frozen=True):
    """How many customers were last seen at a revision."""


class SchemaStatusResponse(SchemaStatus, Schema, frozen=True):
    """Where the databases of the active customers were last seen.

    Migration runs leave out suspended and read-only ones.

    Attributes:
        revisions: How many tenants are at each revision.
    """

    revisions: list[RevisionCountResponse]


class MigrationRunPage(PageResponse[MigrationRunResponse], frozen=True):
    """One page of the history."""


def waiting_for(activity: Activity) -> list[WaitingForResponse] | UnsetType:
    """Return the representation of the servers that are away, if there are any."""
    return [WaitingForResponse.of(one) for one in activity.away] or UNSET


def planned(run: MigrationRun) -> dict[str, Any]:
    """Return the members of a run with a plan, an undo, or one that holds; the rest is left out."""
    return {"plan_id": run.plan_id or UNSET, "undoes": run.undoes or UNSET, **holding(run)}


def holding(run: MigrationRun) -> dict[str, Any]:
    """Return the members of a run that is holding; unset ones are left out."""
    return {"held_because": run.held_because or UNSET, "holding_wave": run.holding_wave or UNSET}
