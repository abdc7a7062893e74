"""Migration runs and the state of the fleet, as people read them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from rich.table import Column
from rich.text import Text

from tenantry.catalog.runs import MigrationRun, MigrationState
from tenantry.cli import output
from tenantry.cli.migrating import Ended
from tenantry.fleet.status import SchemaStatus
from tenantry.kit.pages import Page
from tenantry.schemas.base import Schema
from tenantry.schemas.migrations import (
    MigrationRunDetailResponse,
    MigrationRunResponse,
    SchemaStatusResponse,
)

FAILURES_SHOWN_MAX = 100


class RunningResponse(Schema, frozen=True):
    """A run that has not ended, without its details."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    triggered_by: str
    total_count: int
    success_count: int
    failed_count: int


class StatusResponse(SchemaStatusResponse, frozen=True):
    """Where the tenant databases were last seen, and what is running."""

    running: list[RunningResponse]

    @classmethod
    def with_runs(cls, status: SchemaStatus, running: Sequence[MigrationRun]) -> "StatusResponse":
        """Return the representation of *status*, with the runs that are *running*."""
        seen = msgspec.structs.asdict(SchemaStatusResponse.of(status))
        runs = [RunningResponse(*msgspec.structs.astuple(run)) for run in running]
        return cls(**seen, running=runs)


def show_outcome(ended: Ended) -> None:
    """Print which tenants failed and why, and a line about all of them."""
    failures = ended.failures
    columns = [Column("Failed"), Column("Why", overflow="fold"), Column("Still applied")]
    if not any(one.applied for one in failures):
        columns.pop()
    rows = [(one.tenant_name, one.error, one.applied)[: len(columns)] for one in failures]
    output.show_table(columns, rows[:FAILURES_SHOWN_MAX])
    if len(failures) > FAILURES_SHOWN_MAX:
        output.show_line(f"… and {len(failures) - FAILURES_SHOWN_MAX:,} more.")
    if failures:
        output.show_line()
    output.show_line(_summary(ended))


def _summary(ended: Ended) -> str:
    """Return what became of a run in one line."""
    run = ended.run
    if not run.total_count:
        return "There is no active tenant to migrate."
    already = sum(1 for part in ended.parts if part.applied is None)
    said = [f"{run.success_count:,} of {run.total_count:,} tenants are at the head"]
    if already:
        said.append(f"{already:,} already were")
    if run.failed_count:
        said.append(f"{run.failed_count:,} failed")
    return f"{', '.join(said)} ({ended.seconds:.1f} s)."


def show_status(status: StatusResponse) -> None:
    """Print how many tenants are at which revision."""
    columns = [Column("Revision"), Column("Tenants", justify="right"), Column("")]
    rows = [
        (
            one.revision or "unknown",
            f"{one.count:,}",
            "head" if one.revision == status.head else " ",
        )
        for one in status.revisions
    ]
    output.show_table(columns, rows)
    if rows:
        output.show_line()
    output.show_line(
        f"{status.up_to_date:,} of {status.total:,} active tenants at the head ({status.head}), "
        f"{status.behind:,} behind, {status.unknown:,} unknown."
    )
    for run in status.running:
        done = run.success_count + run.failed_count
        output.show_line(
            f"Running: {run.id}, {done:,} of {run.total_count:,} tenants, "
            f"{run.failed_count:,} failed, by {run.triggered_by}."
        )


def show_history(page: Page[MigrationRun]) -> None:
    """Print runs, a line each."""
    columns = [
        Column("ID", no_wrap=True),
        Column("Started, UTC", no_wrap=True),
        Column("Tenants", justify="right", no_wrap=True),
        Column("Failed", justify="right", no_wrap=True),
        Column("By", overflow="fold", min_width=7),
    ]
    rows = (
        (
            run.id,
            output.minute(run.started_at),
            f"{run.total_count:,}" if run.finished_at else "running",
            f"{run.failed_count:,}",
            run.triggered_by,
        )
        for run in page.items
    )
    output.show_table(columns, rows)
    output.note_page(page, "migration runs")


def show_run(run: MigrationRunResponse) -> None:
    """Print one run, and what became of each tenant."""
    done = run.success_count + run.failed_count
    output.show_facts(
        {
            "run": run.id,
            "by": run.triggered_by,
            "started": run.started_at,
            "took": _took(run.started_at, run.finished_at),
            "tenants": f"{done:,} of {run.total_count:,}, {run.failed_count:,} failed",
        }
    )
    columns = [
        Column("Tenant"),
        Column("Status"),
        Column("Took", justify="right"),
        Column("Applied", overflow="fold"),
        Column("Why", overflow="fold"),
    ]
    if run.details:
        output.show_line()
    output.show_table(columns, (_row(part) for part in run.details))


def _row(part: MigrationRunDetailResponse) -> tuple[object, ...]:
    failed = part.status == MigrationState.FAILED.value
    applied = part.applied_migrations
    return (
        part.customer_name,
        Text(part.status, "red" if failed else "green"),
        _took(part.started_at, part.finished_at),
        "already at the head" if applied is None else applied.replace(",", ", "),
        part.error_message,
    )


def _took(started_at: datetime | None, finished_at: datetime | None) -> str:
    if started_at is None or finished_at is None:
        return "running"
    return f"{(finished_at - started_at).total_seconds():,.1f} s"
