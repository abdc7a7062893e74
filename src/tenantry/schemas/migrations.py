"""Migration runs. The API has two spellings of a status: `success` and `Success`.

The history has a fixed shape; `RunResponse` has what a console needs as well.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Self
from uuid import UUID

from msgspec import UNSET, UnsetType, field

from tenantry.catalog.activity import Activity, AwayServer
from tenantry.catalog.runs import MigrationRun, RunState, RunTenant
from tenantry.catalog.waves import Wave
from tenantry.fleet.pending_revisions import RunsAs
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

    No other member is taken: a mistyped ``dryRun`` would migrate the fleet. With ``plan``, it is
    exactly that of a dry run, and with ``passedOnly`` over the customers that a rehearsal passed.

    Each of ``waves`` is a cumulative number of customers, a percentage (``"10%"``), or, before
    these, a condition that names its customers (``"server=eu"``, ``"name=Acme"``). ``order`` is
    that of the other customers, ``creation`` or ``name``. ``waveMaxFailures`` has the failure
    budget of each wave, from the first one.
    With ``hold``, it holds after each wave, or those with these numbers from 1, until it is
    continued; with ``"check"``, until the operator's check of the wave succeeds.
    """

    tenant_ids: list[UUID] | UnsetType = UNSET
    retry_of: UUID | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    waves: list[int | str] | UnsetType = UNSET
    order: str | UnsetType = UNSET
    wave_max_failures: list[int | str] | UnsetType = UNSET
    max_failures: int | str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    only_behind: bool = False
    hold: bool | list[int] | Literal["check"] = False
    dry_run: bool = False
    rehearse: bool = False
    plan_id: UUID | None = field(name="plan", default=None)
    passed_only: bool = False

    @property
    def options(self) -> RunOptions:
        """The options that are given."""
        sent = sent_members(self)
        return RunOptions(**{name: one for name, one in sent.items() if name not in _NO_OPTIONS})


class ContinueRequest(Schema, frozen=True, forbid_unknown_fields=True):
    """The wave after which the run holds, as the caller has seen it."""

    wave: int


class HistoryRequest(Schema, frozen=True):
    """The details of a run to include."""

    details: Details = Details.ALL


class HistoryPageRequest(PageRequest, frozen=True):
    """Which page of the history, and which details of each run."""

    details: Details = Details.ALL


class MigrationDetailResponse(Schema, frozen=True):
    """The result of one customer, in the response of migrate-all."""

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

    If the run has not ended, because it holds after the wave ``holdingWave``, it also has ``runId``
    and ``heldBecause``.
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
        run_id = UNSET if run.holding_wave is None else run.id
        return cls.of(run, **{"run_id": run_id, **holding(run), **more})


class MigrationResultResponse(MigrationResultTotals, frozen=True):
    """The result of a run."""

    details: list[MigrationDetailResponse]

    @classmethod
    def of_run(cls, run: MigrationRun, items: Sequence[RunTenant]) -> Self:
        """Return the representation of a run that has ended, or holds after a wave."""
        return cls.of_result(run, details=[MigrationDetailResponse.of(item) for item in items])


class MigrationRunDetailResponse(Schema, frozen=True):
    """The result of one customer, in the history."""

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

    It has ``waitingFor`` only while tenants wait for a server, ``planId`` only if it has a plan,
    ``heldBecause`` only while it is holding, and ``holdingWave`` only after that wave.
    """

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    total_count: int
    success_count: int
    failed_count: int
    triggered_by: str
    plan_id: UUID | UnsetType
    held_because: str | UnsetType
    holding_wave: int | UnsetType
    waiting_for: list[WaitingForResponse] | UnsetType

    @classmethod
    def of_state(cls, run: MigrationRun, activity: Activity) -> Self:
        """Return the representation of *run* and its *activity*."""
        return cls.of(run, **planned(run), waiting_for=waiting_for(activity))


class MigrationRunResponse(MigrationRunStateResponse, frozen=True):
    """One recorded call of migrate-all."""

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


class MigrationPreviewDetailResponse(Schema, frozen=True):
    """What a run would find at one customer."""

    tenant_id: UUID = field(name="customerId")
    tenant_name: str = field(name="customerName")
    current_revision: str | None
    pending_migrations: str | None
    error: str | None


class FindingResponse(Schema, frozen=True):
    """A hint: a statement can block requests, lose data, fail, or break the running release.

    ``statementNumber`` is the place of the statement in the revision, from 1. ``table`` is null if
    the statement names none.
    """

    rule: str
    message: str
    statement_number: int
    table: str | None


class PendingRevisionResponse(Schema, frozen=True):
    """A pending revision, and the SQL that a run would send.

    ``sql`` is null for a revision that is not recorded: it runs ``live``, or outside a transaction
    (``autocommit``), for the ``liveReason``, and has no ``findings``. With ``isCut``, the rest of a
    long text is left out.
    """

    revision: str
    engine: str
    runs_as: RunsAs
    live_reason: str | None
    sql: str | None
    is_cut: bool
    findings: list[FindingResponse]


class DurationResponse(Schema, frozen=True):
    """How long earlier customers took for these revisions, in milliseconds."""

    pending_migrations: str
    median_ms: int
    tenant_count: int = field(name="customerCount")


class PlanReference(Schema, frozen=True):
    """A stored plan, and the hash of all that a run of it depends on."""

    id: UUID
    digest: str


class MigrationPreviewResponse(Schema, frozen=True):
    """What a run would find: the answer to ``dryRun``.

    ``expectedMs`` is by the durations of earlier customers, in the answering process alone;
    null if some are not known. ``plan`` can be started; it is null if the files of the revisions
    cannot be read, or were replaced during the dry run.
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


class FailureCauseResponse(Schema, frozen=True):
    """Errors of one kind, and a customer that has one.

    ``left`` counts the customers that exist and have not been migrated since.
    """

    cause: str
    count: int
    left: int
    sample_tenant_id: UUID = field(name="sampleCustomerId")


class FailureCauseList(ListResponse[FailureCauseResponse], frozen=True):
    """Why customers failed in a run, the commonest cause first."""


class RevisionCountResponse(PlacedCount, Schema, frozen=True):
    """How many customers were last seen at a revision; null: never seen.

    ``failing`` of them failed in the latest attempt to migrate them. Of the others, the schema of
    ``drifted`` differs from that of the revision.
    """


class SchemaStatusResponse(SchemaStatus, Schema, frozen=True):
    """Where the databases of the active customers were last seen.

    ``failing`` and ``drifted`` customers are also counted where they were last seen. Migration
    runs leave out ``suspended`` and ``readOnly`` ones, which are not in ``total``.
    """

    revisions: list[RevisionCountResponse]


class MigrationRunPage(PageResponse[MigrationRunResponse], frozen=True):
    """One page of the history."""


def waiting_for(activity: Activity) -> list[WaitingForResponse] | UnsetType:
    """Return the representation of the servers that are away, if there are any."""
    return [WaitingForResponse.of(one) for one in activity.away] or UNSET


def planned(run: MigrationRun) -> dict[str, Any]:
    """Return the members of a run that has a plan, or is holding; unset ones are left out."""
    return {"plan_id": run.plan_id or UNSET, **holding(run)}


def holding(run: MigrationRun) -> dict[str, Any]:
    """Return the members of a run that is holding; unset ones are left out."""
    return {"held_because": run.held_because or UNSET, "holding_wave": run.holding_wave or UNSET}


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


class WaveDetailResponse(Wave, Schema, frozen=True):
    """The condition that names the customers of a wave, and its own failure budget, or null."""


class RunResponse(Schema, frozen=True):
    """One migration run.

    ``failedCount`` includes ``notAttemptedCount``. It has ``waitingFor`` only while tenants wait
    for a server, ``inWork`` only while some are being migrated, ``heldBecause`` only while no
    process has the files of its plan, and ``waveDetails``, one for each of ``waves``, only if a
    wave names its customers or has a failure budget.
    for a server, ``inWork`` only while some are being migrated, and ``heldBecause`` only while it
    is holding: after the wave ``holdingWave``, or because no process has the files of its plan.
    ``holds`` are the waves after which it holds.
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
    wave_details: list[WaveDetailResponse] | UnsetType
    max_failures: int | None
    stop_reason: str | None
    retry_of: UUID | None
    plan_id: UUID | None
    holds: list[int] | None
    held_because: str | UnsetType
    holding_wave: int | UnsetType
    waiting_for: list[WaitingForResponse] | UnsetType
    in_work: list[InWorkResponse] | UnsetType

    @classmethod
    def of_run(cls, run: MigrationRun, activity: Activity) -> Self:
        """Return the representation of *run* and its *activity*."""
        in_work = [InWorkResponse.of(one) for one in activity.in_work] or UNSET
        return cls.of(
            run,
            held_because=run.held_because or UNSET,
            wave_details=[WaveDetailResponse(**one) for one in run.wave_details or ()] or UNSET,
            **holding(run),
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
