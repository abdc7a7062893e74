"""Plans of runs, as text."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenantry.catalog.stored_plans import PlanCause, PlanTenant, SlowTenant, StoredPlan
from tenantry.cli import session
from tenantry.cli.printing import output
from tenantry.cli.printing.reports import show_failures, show_long_table, tenants_text
from tenantry.fleet.pending_revisions import PendingRevision, planned_revisions
from tenantry.kit.pages import Page

if TYPE_CHECKING:
    from tenantry.fleet.dry_run import Preview, TenantPreview


def show_preview(preview: "Preview", *, rehearsed: bool) -> None:
    """Print what a run would do: one line for all tenants at the same revision."""
    alike = Counter((one.current_revision, one.pending_migrations) for one in preview.details)
    columns = [output.number("Tenants"), output.unwrapped("Revision"), "Pending"]
    rows = [
        (f"{count:,}", revision, "nothing" if pending is None else pending.replace(",", ", "))
        for (revision, pending), count in alike.most_common()
        if pending != ""
    ]
    show_long_table(columns, rows)
    _show_live(preview.revisions)
    _show_findings(preview.revisions)
    _show_lost(preview.revisions)
    _show_slowest(preview.slowest, preview.estimated_ms)
    failed = [one for one in preview.details if one.error is not None and one.is_rehearsable]
    skipped = [one for one in preview.details if not one.is_rehearsable]
    show_failures(_by_cause(failed))
    show_failures(_by_cause(skipped), heading="Not rehearsed")
    passed = preview.pending - len(skipped)
    not_rehearsed = f", {len(skipped):,} not rehearsed" if skipped else ""
    undoes = preview.plan.options[0]["undoes"] if preview.plan else None
    others = f"{preview.up_to_date:,} {_done(undoes)}, {preview.failed:,} failed{not_rehearsed}."
    if rehearsed:
        at = f" at {preview.plan.created_at:%H:%M} UTC" if preview.plan else ""
        output.show_line(
            f"{tenants_text(preview.total)} rehearsed{at}, and rolled back: "
            f"{passed:,} passed, {others}"
        )
    else:
        output.show_line(
            f"{passed:,} of {tenants_text(preview.total)} pending, not tried, {others}"
        )
    if preview.plan is None:
        output.note("No plan was stored: the files of the revisions cannot be read, or changed.")
        return
    output.show_line(f"Plan: {preview.plan.id}")
    words = ["undo", undoes] if undoes else ["all"]
    output.note(f"Run exactly this: {session.command(*words, '--plan', preview.plan.id)}.")
    if rehearsed and preview.failed and passed:
        verb = "undo" if undoes else "migrate"
        output.note(f"Add --passed-only to {verb} the {passed:,} that passed.")


def show_plans(page: Page[StoredPlan]) -> None:
    """Print plans, one line each."""
    columns = [
        output.unwrapped("ID"),
        output.unwrapped("Made, UTC"),
        output.number("Tenants"),
        output.number("Pending"),
        output.number("Failed"),
        "State",
        "By",
    ]
    rows = (
        (
            one.id,
            output.minute(one.created_at),
            f"{one.total_count:,}",
            f"{one.pending_count:,}",
            f"{one.failed_count:,}",
            "started" if one.run_id else _tried(one),
            one.actor,
        )
        for one in page.items
    )
    output.show_table(columns, rows)
    output.note_page(page, "plans")


def show_plan(plan: StoredPlan, causes: Sequence[PlanCause], tenants: Sequence[PlanTenant]) -> None:
    """Print one plan, its revisions, and what it has found at each tenant."""
    options = plan.options[0]
    waves, failures = options["waves"], options["max_failures"]
    attributes = {
        "plan": plan.id,
        "digest": plan.digest,
        "label": plan.label,
        "by": plan.actor,
        "made": plan.created_at,
        "expires": plan.expires_at,
        "head": plan.head,
        "tenants": f"{plan.total_count:,}: {_found(plan)}",
        "undoes": options.get("undoes"),
        "waves": " ".join(map(str, waves)) if waves else None,
        "order": options.get("order") if waves else None,
        "failures of waves": " ".join(map(str, options.get("wave_max_failures") or ())) or None,
        "failures allowed": None if failures is None else str(failures),
        "error rate allowed": options.get("max_error_rate"),
        "run": plan.run_id,
    }
    output.show_attributes({name: value for name, value in attributes.items() if value is not None})
    output.show_line()
    revisions = planned_revisions(plan)
    columns = ["Revision", "Engine", "Runs as", "SHA-256 of its SQL"]
    rows = [(one.revision, one.engine, one.runs_as.value, one.sql_sha256) for one in revisions]
    show_long_table(columns, rows)
    _show_findings(revisions)
    _show_lost(revisions)
    _show_slowest(plan.slow_tenants, plan.estimated_ms)
    samples = {one.tenant_id: one for one in tenants}
    show_failures(
        [
            (one.count, samples[one.sample_tenant_id].tenant_name, one.cause)
            for one in causes
            if one.sample_tenant_id in samples
        ]
    )
    columns = ["Tenant", "Revision", "Pending", "Why"]
    show_long_table(columns, [_row(one) for one in tenants])


def _found(plan: StoredPlan) -> str:
    done = _done(plan.options[0].get("undoes"))
    others = f"{plan.up_to_date_count:,} {done}, {plan.failed_count:,} failed"
    if plan.is_rehearsed:
        return f"{_tried(plan)}: {plan.passed_count:,} passed, {others}"
    return f"{plan.pending_count:,} {_tried(plan)}, {others}"


def _done(undoes: object) -> str:
    return "with nothing to undo" if undoes else "at the head"


def _tried(plan: StoredPlan) -> str:
    return f"rehearsed at {plan.created_at:%H:%M}" if plan.is_rehearsed else "pending, not tried"


def _row(one: PlanTenant) -> tuple[object, ...]:
    pending = "nothing" if one.pending is None else one.pending.replace(",", ", ")
    return one.tenant_name, one.position, pending, one.error


def _show_live(revisions: Sequence[PendingRevision]) -> None:
    """Print which pending revisions are not recorded, and why; equal ones of two engines once."""
    columns = ["Runs live", "Why"]
    rows = [(one.revision, one.live_reason) for one in revisions if one.live_reason is not None]
    show_long_table(columns, list(dict.fromkeys(rows)))


def _show_findings(revisions: Sequence[PendingRevision]) -> None:
    """Print the hints about the statements of pending revisions; equal ones of two engines once."""
    columns = ["Warning in", output.number("Statement"), "What it does"]
    rows = [
        (one.revision, f"{found.statement_number:,}", found.message)
        for one in revisions
        for found in one.findings
    ]
    show_long_table(columns, list(dict.fromkeys(rows)))


def _show_lost(revisions: Sequence[PendingRevision]) -> None:
    """Print what is lost when revisions are undone."""
    columns = ["Lost by undoing", "What", output.number("Rows or values"), output.number("Tenants")]
    rows = [
        (
            one.revision,
            f"the column {lost.column} of {lost.table}" if lost.column else f"table {lost.table}",
            f"{'more than ' if lost.is_more else ''}{lost.count:,}",
            f"{lost.tenant_count:,}",
        )
        for one in revisions
        for lost in one.lost
    ]
    show_long_table(columns, rows)


def _show_slowest(slowest: Sequence[SlowTenant], estimated_ms: int | None) -> None:
    """Print the slowest tenants of a rehearsal, and how long the run takes by all of them."""
    rows = [(one.tenant_name, f"{one.duration_ms / 1_000:,.3f}") for one in slowest]
    show_long_table(["Slowest", output.number("Seconds")], rows)
    if rows and estimated_ms is not None:
        seconds = max(estimated_ms / 1_000, 0.1)
        output.show_line(f"By this rehearsal, one process needs about {seconds:,.1f} s.")
        output.show_line()


def _by_cause(previews: Sequence["TenantPreview"]) -> list[tuple[int, str, str | None]]:
    """Return the count of each cause, with the name and the error of one tenant; most first."""
    samples = {one.cause: one for one in reversed(previews)}
    counts = Counter(one.cause for one in previews)
    return [
        (count, samples[cause].tenant_name, samples[cause].error)
        for cause, count in counts.most_common()
    ]
