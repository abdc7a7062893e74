"""``tenantry migrate``: migration of every tenant database, and its history."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated
from uuid import UUID

import typer

from tenantry.catalog import admins, runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun, MigrationRunNotFound
from tenantry.catalog.stored_plans import PlanNotFound
from tenantry.cli import linting, migrating, run_options, run_reading, session
from tenantry.cli.commands import new_group
from tenantry.cli.completion import run_ids
from tenantry.cli.exit_status import ExitStatus, Misuse
from tenantry.cli.finding import read_id
from tenantry.cli.printing import output, plan_reports, reports
from tenantry.cli.printing.progress import Found
from tenantry.cli.run_options import Conduct, options_of
from tenantry.cli.run_reading import exit_after
from tenantry.cli.session import RunServices
from tenantry.cli.wording import named
from tenantry.fleet.dry_run import Preview
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.kit import process
from tenantry.migration import revision_template
from tenantry.schemas.base import Schema
from tenantry.schemas.migrations import MigrationDetailResponse, MigrationResultResponse
from tenantry.schemas.previews import MigrationPreviewResponse

group = new_group("Migrate every tenant database.", reading=run_reading.group)
group.registered_commands += linting.group.registered_commands


Choose = Callable[[Catalog], Awaitable[RunOptions]]
"""Returns the options of a run, once the catalog is open."""


class DraftResponse(Schema, frozen=True):
    """A new revision."""

    revision: str
    name: str
    path: str


class RunResult(MigrationResultResponse, frozen=True):
    """The result of a run, with the id for `--retry` and `migrate continue`."""

    run_id: UUID


@group.command("new")
def new(
    *, message: Annotated[str, typer.Option("--message", "-m", help="What the revision does.")]
) -> None:
    """Create the file of a new revision, after the newest one."""
    settings = session.configure()
    if settings.tenant_migrations is None:
        raise Misuse(
            "Set TENANTRY_TENANT_MIGRATIONS to the folder for your revisions, such as `migrations`."
        )
    draft = revision_template.write_draft(settings.tenant_migrations, message)
    if output.shown_as_json(DraftResponse(draft.id, draft.name, str(draft.path))):
        return
    output.show_line(str(draft.path))
    output.note("Complete it; `tenantry migrate plan` then shows which tenants would get it.")


@group.command("plan")
async def plan(
    *,
    tenant: run_options.Tenants = None,
    retry: run_options.Retry = None,
    only_behind: run_options.OnlyBehind = False,
    how: Conduct,
    rehearse: Annotated[
        bool, typer.Option(help="Run pending revisions, with their locks, and roll them back.")
    ] = False,
) -> None:
    """Inspect every tenant's database, print what a run would do, and store it as a plan.

    No tenant is changed. `migrate all --plan` runs exactly the plan. The exit status is 1 if a
    tenant has failed. A tenant with pending revisions that cannot be rehearsed has not failed.
    """
    async with session.opened() as services:
        await migrating.check_revisions(services)
        chosen = await options_of(
            services.catalog, how, named=tenant, retry=retry, only_behind=only_behind
        )
        found = await _preview(services, chosen, rehearse=rehearse)
    _show_preview(*found, rehearsed=rehearse)


@group.command("all")
def migrate_fleet(
    *,
    by: Annotated[
        str | None, typer.Option(help="The admin that starts the run. Default: the only one.")
    ] = None,
    tenant: run_options.Tenants = None,
    retry: run_options.Retry = None,
    only_behind: run_options.OnlyBehind = False,
    how: Conduct,
    plan: run_options.PlanId = None,
    passed_only: run_options.PassedOnly = False,
) -> None:
    """Migrate every active tenant to the newest revision.

    The exit status is 1 if a tenant has failed, and 4 if the run holds after a wave.
    """
    choose = partial(
        options_of, how=how, named=tenant, retry=retry, only_behind=only_behind, plan=plan
    )
    _run_to_the_end(choose, by=by, plan=plan, passed_only=passed_only)


@group.command("undo")
def undo(
    run: Annotated[str, typer.Argument(help="The id of the run.", autocompletion=run_ids)],
    *,
    by: Annotated[
        str | None, typer.Option(help="The admin that starts the undo. Default: the only one.")
    ] = None,
    tenant: run_options.Tenants = None,
    how: Conduct,
    plan: run_options.PlanId = None,
    passed_only: run_options.PassedOnly = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be undone, and store a plan.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option(help="Undo each tenant with its locks, and roll it back: a dry run.")
    ] = False,
) -> None:
    """Undo a migration run: run the downgrade() of what it has applied to each tenant.

    Tenants that were migrated since are left as they are. The undo is a run of its own.
    """
    choose = partial(options_of, how=how, named=tenant, plan=plan, undoes=run)
    if not dry_run and not rehearse:
        _run_to_the_end(choose, by=by, plan=plan, passed_only=passed_only)
        return
    if plan is not None:
        raise BadRunOptions("--dry-run makes a new plan: leave out --plan.")

    async def preview() -> tuple[Preview, Sequence[MigrationRun]]:
        async with session.opened() as services:
            chosen = await choose(services.catalog)
            return await _preview(services, chosen, rehearse=rehearse)

    _show_preview(*process.run(preview()), rehearsed=rehearse)


@group.command("continue")
def continue_run(
    run: Annotated[str, typer.Argument(help="The id of the run.", autocompletion=run_ids)],
    *,
    wave: Annotated[
        int | None, typer.Option(help="Start the next wave of a run that holds after this one.")
    ] = None,
) -> None:
    """Work on a run that has not ended, like `migrate all`; --wave starts its next wave first.

    The exit status is 1 if a tenant has failed, and 4 if the run holds after another wave.
    """

    async def resume() -> Found:
        async with session.working() as services:
            process.settle()
            run_id = read_id(run, MigrationRunNotFound)
            return await migrating.resume(services, run_id, wave=wave)

    _show_end(process.run(resume()))


@group.command("cancel")
async def cancel(
    run: Annotated[str, typer.Argument(help="The id of the run.", autocompletion=run_ids)],
) -> None:
    """Cancel a migration run: tenants in work finish, others are not started."""
    async with session.opened() as services:
        run_id = read_id(run, MigrationRunNotFound)
        await services.fleet.cancel(session.context(), run_id, ends_all=True)
        left = await runs.get(services.catalog, run_id)
    output.show_done(named("The run is cancelled: tenants in work finish, others are not started."))
    if left.finished_at is None:
        output.note(f"Its end: {session.command('show', run_id, '--watch')}.")
        output.note(named("If its process was killed, `tenantry migrate continue RUN` ends it."))


async def _preview(
    services: RunServices, options: RunOptions, *, rehearse: bool
) -> tuple[Preview, Sequence[MigrationRun]]:
    """Return a preview, and the runs that had not ended before."""
    unfinished = await runs.unfinished(services.catalog)
    found = await services.fleet.preview(session.context(), options, rehearse=rehearse)
    return found, unfinished


def _run_to_the_end(
    choose: Choose,
    *,
    by: str | None,
    plan: str | None,
    passed_only: bool,
) -> None:
    """Start a run, work on it until it has ended, and print its result."""

    async def migrate() -> Found:
        async with session.working() as services:
            process.settle()
            catalog = services.catalog
            options = await choose(catalog)
            if options.undoes is not None:
                await migrating.until_stopped(services, options.undoes)
            return await migrating.migrate_all(
                services,
                triggered_by=session.starter() or await _admin(catalog, by),
                options=options,
                plan_id=None if plan is None else read_id(plan, PlanNotFound),
                passed_only=passed_only,
            )

    _show_end(process.run(migrate()))


def _show_end(found: Found) -> None:
    """Print a run that has ended, or holds after a wave, and exit with the status for it."""
    run = found.run
    if output.wants_json():
        details = [MigrationDetailResponse.of(item) for item in found.items]
        output.show_json(RunResult.of_result(run, details=details, run_id=run.id))
    else:
        reports.show_outcome(found)
        output.note(f"Details: {session.command('show', run.id)}.")
        if run.finished_at is None:
            wave = () if run.holding_wave is None else ("--wave", run.holding_wave)
            output.note(f"Continue: {session.command('continue', run.id, *wave)}.")
            output.note(f"Stop: {session.command('cancel', run.id)}.")
        elif run.failed_count:
            output.note(f"Retry: {session.command('all', '--retry', run.id)}.")
    if run.finished_at is None:
        raise typer.Exit(ExitStatus.HOLDING)
    exit_after(run)


def _note_unfinished(unfinished: Sequence[MigrationRun]) -> None:
    """Name the oldest run that has not ended."""
    oldest, *others = unfinished
    several = "another one has" if len(others) == 1 else f"{len(others):,} others have"
    more = f", and {several} not, either." if others else "."
    what = "A run" if oldest.undoes is None else "An undo"
    output.note(f"{what} has not ended: {session.command('show', oldest.id)}{more}")
    if not oldest.held_because:  # that is left to a person, or to a process that has its files
        output.note(f"If no process works on it: {session.command('continue', oldest.id)}.")


def _show_preview(preview: Preview, unfinished: Sequence[MigrationRun], *, rehearsed: bool) -> None:
    if unfinished:
        _note_unfinished(unfinished)
    if output.wants_json():
        output.show_json(MigrationPreviewResponse.of(preview))
    else:
        plan_reports.show_preview(preview, rehearsed=rehearsed)
    if preview.failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


async def _admin(catalog: Catalog, by: str | None) -> str:
    return await _only_admin(catalog) if by is None else await _active_admin(catalog, by)


async def _active_admin(catalog: Catalog, email: str) -> str:
    emails = import_module("tenantry.access.emails")  # a fleet has no admins
    account = await admins.find_account(catalog, emails.canonical_email(email))
    if account is None or not account.is_active:
        raise Misuse(
            "--by must be the e-mail address of an active admin; `tenantry admin list` lists them."
        )
    return account.email


async def _only_admin(catalog: Catalog) -> str:
    active = [admin.email for admin in await admins.every(catalog) if admin.is_active]
    if not active:
        raise Misuse("There is no active admin: `tenantry admin create EMAIL` creates one.")
    if len(active) > 1:
        raise Misuse(
            "There are several active admins: set the one that starts the run with --by EMAIL."
        )
    return active[0]
