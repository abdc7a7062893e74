"""Migration runs and the state of the fleet, as people read them."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec
from rich.table import Column
from rich.text import Text

from tenantry.catalog.runs import MigrationRun, MigrationState, TenantMigration
from tenantry.cli import output
from tenantry.cli.progress import Found
from tenantry.fleet.dry_run import Preview
from tenantry.fleet.status import SchemaStatus
from tenantry.kit.pages import Page
from tenantry.schemas.migrations import MigrationRunStateResponse, SchemaStatusResponse

ROWS_SHOWN_MAX = 100


class StatusResponse(SchemaStatusResponse, frozen=True):
    """Where the tenant databases were last seen, and what is running."""

    running: list[MigrationRunStateResponse]

    @classmethod
    def with_runs(cls, status: SchemaStatus, running: Sequence[MigrationRun]) -> "StatusResponse":
        """Return the representation of *status*, with the runs that are *running*."""
        seen = msgspec.structs.asdict(SchemaStatusResponse.of(status))
        runs = [MigrationRunStateResponse.of(run) for run in running]
        return cls(**seen, running=runs)


def show_preview(preview: Preview, *, rehearsed: bool) -> None:
    """Print what a run would find: a line for tenants that stand alike."""
    alike = Counter((one.current_revision, one.pending_migrations) for one in preview.details)
    columns = [
        Column("Tenants", justify="right"),
        Column("Stand at", no_wrap=True),
        Column("Would get", overflow="fold"),
    ]
    rows = [
        (f"{count:,}", revision, "nothing" if pending is None else pending.replace(",", ", "))
        for (revision, pending), count in alike.most_common()
        if pending != ""
    ]
    _show_table(columns, rows)
    failed = [one for one in preview.details if one.error is not None]
    samples = {one.error: one.tenant_name for one in reversed(failed)}
    counts = Counter(one.error for one in failed)
    _show_failures([(count, samples[error], error) for error, count in counts.most_common()])
    done = "rehearsed, and rolled back" if rehearsed else "pending"
    output.show_line(
        f"{preview.pending:,} of {preview.total:,} tenants {done}, "
        f"{preview.up_to_date:,} at the head, {preview.failed:,} failed."
    )


def show_outcome(ended: Found) -> None:
    """Print why tenants failed, and a line about all of them."""
    _show_causes(ended)
    output.show_line(_summary(ended))


def _show_causes(found: Found) -> None:
    """Print each cause in the words of one tenant that has it."""
    samples = {part.tenant_id: part for part in found.parts}
    _show_failures(
        [
            (
                one.count,
                samples[one.sample_tenant_id].tenant_name,
                samples[one.sample_tenant_id].error,
            )
            for one in found.causes
        ]
    )


def _show_failures(rows: Sequence[tuple[int, str, str | None]]) -> None:
    columns = [
        Column("Failed", justify="right"),
        Column("For example"),
        Column("Why", overflow="fold"),
    ]
    _show_table(columns, [(f"{count:,}", name, why) for count, name, why in rows])


def _show_table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as far as it can be read, and an empty line after it."""
    output.show_table(columns, rows[:ROWS_SHOWN_MAX])
    if len(rows) > ROWS_SHOWN_MAX:
        output.show_line(f"… and {len(rows) - ROWS_SHOWN_MAX:,} more: --json has them all.")
    if rows:
        output.show_line()


def _summary(found: Found) -> str:
    """Return what became of a run in one line."""
    run = found.run
    assert run.finished_at is not None
    if not run.total_count:
        return "There is no active tenant to migrate."
    already = sum(
        part.state == MigrationState.SUCCESS and part.applied is None for part in found.parts
    )
    said = [f"{run.success_count:,} of {run.total_count:,} tenants are at the head"]
    if already:
        said.append(f"{already:,} already were")
    if run.failed_count:
        said.append(f"{run.failed_count:,} failed")
    return f"{', '.join(said)} ({(run.finished_at - run.started_at).total_seconds():.1f} s)."


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


def show_run(found: Found) -> None:
    """Print one run, and what has become of each tenant."""
    run, terms = found.run, found.terms
    done = run.success_count + run.failed_count
    facts = {
        "run": run.id,
        "label": terms.label,
        "by": run.triggered_by,
        "started": run.started_at,
        "took": _took(run.started_at, run.finished_at),
        "tenants": f"{done:,} of {run.total_count:,}, {run.failed_count:,} failed",
        "waves": terms.waves,
        "bears": None if terms.max_failures is None else f"{terms.max_failures:,} failures",
        "stopped": terms.stop_reason,
    }
    output.show_facts({name: fact for name, fact in facts.items() if fact is not None})
    output.show_line()
    _show_causes(found)
    columns = [
        Column("Tenant"),
        Column("Status"),
        Column("Took", justify="right"),
        Column("Applied", overflow="fold"),
        Column("Why", overflow="fold"),
    ]
    _show_table(columns, [_row(part) for part in found.parts])


def _row(part: TenantMigration) -> tuple[object, ...]:
    failed = part.state == MigrationState.FAILED.value
    return (
        part.tenant_name,
        Text(part.state, "red" if failed else "green"),
        _took(part.started_at, part.finished_at),
        "already at the head" if part.applied is None else part.applied.replace(",", ", "),
        part.error,
    )


def _took(started_at: datetime | None, finished_at: datetime | None) -> str:
    if started_at is None or finished_at is None:
        return "running"
    return f"{(finished_at - started_at).total_seconds():,.1f} s"
