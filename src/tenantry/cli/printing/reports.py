"""Migration runs and the state of the fleet, as text."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from rich.table import Column
from rich.text import Text

from tenantry.catalog.runs import (
    NOT_ATTEMPTED,
    MigrationRun,
    MigrationState,
    RunTenant,
)
from tenantry.cli.printing import output
from tenantry.cli.printing.progress import LEFT, Found, reason_to_wait
from tenantry.cli.wording import named
from tenantry.kit.pages import Page
from tenantry.schemas.migrations import MigrationRunStateResponse, SchemaStatusResponse

ROWS_SHOWN_MAX = 100
ALREADY = "already at the head"


class StatusResponse(SchemaStatusResponse, frozen=True):
    """The last known revisions of the tenant databases, and the active runs."""

    running: list[MigrationRunStateResponse]


def tenants_text(count: int) -> str:
    """Return a number of tenants in words."""
    return named("1 tenant" if count == 1 else f"{count:,} tenants")


def show_outcome(ended: Found) -> None:
    """Print the causes of failures, and a summary."""
    _show_causes(ended)
    output.show_line(_summary(ended))


def _show_causes(found: Found) -> None:
    """Print each cause with the error of one tenant; what was not attempted comes last."""
    samples = {item.tenant_id: item for item in found.items}
    rows = [
        (one.count, samples[one.sample_tenant_id].tenant_name, samples[one.sample_tenant_id].error)
        for one in found.causes
    ]
    show_failures(sorted(rows, key=lambda row: (row[2] or "").startswith(NOT_ATTEMPTED)))


def show_failures(rows: Sequence[tuple[int, str, str | None]], *, heading: str = "Failed") -> None:
    """Print errors: how many tenants have each, one of these, and the error."""
    columns = [output.number(heading), "For example", "Why"]
    show_long_table(columns, [(f"{count:,}", name, why) for count, name, why in rows])


def show_long_table(columns: Sequence[output.Header], rows: Sequence[Sequence[object]]) -> None:
    """Print up to `ROWS_SHOWN_MAX` rows of a table, and an empty line after it."""
    output.show_table(columns, rows[:ROWS_SHOWN_MAX])
    if len(rows) > ROWS_SHOWN_MAX:
        output.show_line(f"… and {len(rows) - ROWS_SHOWN_MAX:,} more: --json has them all.")
    if rows:
        output.show_line()


def _summary(found: Found) -> str:
    """Return the result of a run in one line."""
    run = found.run
    if not run.total_count:
        return named("There is no active tenant to migrate.")
    already = sum(
        item.state == MigrationState.SUCCESS and item.applied is None for item in found.items
    )
    verb = "is" if run.total_count == 1 else "are"
    where = "back before the run" if run.undoes else "at the head"
    said = [f"{run.success_count:,} of {tenants_text(run.total_count)} {verb} {where}"]
    if already:
        said.append(f"{already:,} unchanged")
    if run.failed_count:
        said.append(f"{run.failed_count:,} failed")
    if run.finished_at is None:
        return f"{', '.join(said)}. The run is holding: {run.held_because}"
    return f"{', '.join(said)} ({(run.finished_at - run.started_at).total_seconds():.1f} s)."


def show_status(status: StatusResponse, *, left: Collection[UUID]) -> None:
    """Print the number of tenants at each revision, and the active runs.

    On those in *left*, no process works.
    """
    columns = ["Revision", output.number("Tenants"), ""]
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
        f"{status.up_to_date:,} of {named(f'{status.total:,} active tenants')} at the head "
        f"({status.head}), "
        f"{status.behind:,} behind, {status.unknown:,} unknown."
    )
    for run in status.running:
        done = run.success_count + run.failed_count
        output.show_line(
            f"{_doing(run)}: {run.id}, "
            f"{done:,} of {tenants_text(run.total_count)}, "
            f"{run.failed_count:,} failed, by {run.triggered_by}."
        )
        if run.held_because:
            output.show_line(f"Holding because: {run.held_because}")
        if run.id in left:
            output.show_line(named(LEFT))
        for one in run.waiting_for or ():
            output.show_line(f"Waiting {reason_to_wait(one)}.")


def _doing(run: MigrationRunStateResponse) -> str:
    if run.held_because:
        return "Holding"
    return "Undoing" if run.undoes else "Running"


def show_history(
    page: Page[MigrationRun], undos: Sequence[MigrationRun], not_undone: Mapping[UUID, int]
) -> None:
    """Print runs, one line each, and how far *undos* have undone them.

    *not_undone* has the number of tenants in which a run was not undone.
    """
    texts = [
        _undo_text(run, [one for one in undos if one.undoes == run.id], not_undone.get(run.id, 0))
        for run in page.items
    ]
    columns = [
        output.unwrapped("ID"),
        output.unwrapped("Started, UTC"),
        output.number("Tenants"),
        output.number("Failed"),
        *([output.unwrapped("Undo")] if any(texts) else []),
        Column("By", min_width=7),
    ]
    rows = (
        (
            run.id,
            output.minute(run.started_at),
            f"{run.total_count:,}" if run.finished_at else run.state.value,
            f"{run.failed_count:,}",
            *([text] if any(texts) else []),
            run.triggered_by,
        )
        for run, text in zip(page.items, texts, strict=True)
    )
    output.show_table(columns, rows)
    output.note_page(page, "migration runs")


def _undo_text(run: MigrationRun, undos: Sequence[MigrationRun], not_undone: int) -> str:
    """Return whether a run is an undo, or how far its *undos* have come, the newest first."""
    if not undos:
        return "an undo" if run.undoes else ""
    if undos[0].finished_at is None:
        return "being undone"
    if not any(one.success_count for one in undos):
        return "not undone"
    return f"not undone in {not_undone:,}" if not_undone else "undone"


def show_run(found: Found) -> None:
    """Print one run, and the result of each tenant."""
    run = found.run
    done = run.success_count + run.failed_count
    attributes = {
        "run": run.id,
        "label": run.label,
        "by": run.triggered_by,
        "started": run.started_at,
        "took": _took(run.started_at, run.finished_at),
        "tenants": f"{done:,} of {run.total_count:,}, {run.failed_count:,} failed",
        "waves": " ".join(_waves(run)) or None,
        "failures allowed": None if run.max_failures is None else f"{run.max_failures:,}",
        "stopped": run.stop_reason,
        "plan": run.plan_id,
        "holds after": f"wave {', '.join(map(str, run.holds))}" if run.holds else None,
        "error rate allowed": run.max_error_rate,
        "holding": run.held_because,
        "work": named(LEFT) if found.activity.is_left else None,
        "undoes": run.undoes,
        "undone by": "; ".join(f"{one.id}, {one.state.value}" for one in found.undos) or None,
        "waiting": "; ".join(map(reason_to_wait, found.activity.away)) or None,
    }
    output.show_attributes({name: value for name, value in attributes.items() if value is not None})
    output.show_line()
    _show_causes(found)
    what, nothing = ("Undone", "nothing to undo") if run.undoes else ("Applied", ALREADY)
    columns = ["Tenant", "Status", output.number("Took"), what, "Why"]
    show_long_table(columns, [_row(item, nothing) for item in found.items])


def _waves(run: MigrationRun) -> list[str]:
    """Return the cumulative size of each wave, with its name and its failure budget."""
    texts = [str(size) for size in run.waves or ()]
    for at, one in enumerate(run.wave_details or ()):
        most = one["max_failures"]
        more = [one["where"], None if most is None else f"{most:,} may fail"]
        if any(more):
            texts[at] += f" ({', '.join(filter(None, more))})"
    return texts


def _row(item: RunTenant, nothing: str) -> tuple[object, ...]:
    failed = item.state == MigrationState.FAILED.value
    return (
        item.tenant_name,
        Text(item.state, "red" if failed else "green"),
        _took(item.started_at, item.finished_at),
        nothing if item.applied is None else item.applied.replace(",", ", "),
        item.error,
    )


def _took(started_at: datetime | None, finished_at: datetime | None) -> str:
    if started_at is None or finished_at is None:
        return "running"
    return f"{(finished_at - started_at).total_seconds():,.1f} s"
