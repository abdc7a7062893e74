"""``tenantry migrate``: migration of every tenant database, and its history."""

from typing import Annotated
from uuid import UUID

import typer

from tenantry.access.emails import canonical_email
from tenantry.catalog import admins, runs, stored_plans
from tenantry.catalog.activity import activity_of
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun, MigrationRunNotFound
from tenantry.catalog.stored_plans import PlanNotFound
from tenantry.cli import options, output, plan_reports, progress, reports, run_options, session
from tenantry.cli.commands import new_group
from tenantry.cli.completion import run_ids
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.finding import read_id
from tenantry.cli.progress import Found
from tenantry.cli.reports import StatusResponse
from tenantry.fleet.status import schema_status
from tenantry.kit import process
from tenantry.kit.errors import Invalid
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Page, Window
from tenantry.migration import revision_template
from tenantry.schemas.base import Schema
from tenantry.schemas.migrations import (
    MigrationDetailResponse,
    MigrationPreviewResponse,
    MigrationResultResponse,
    MigrationRunPage,
    MigrationRunResponse,
    MigrationRunStateResponse,
)
from tenantry.schemas.plans import PlanDetailResponse, PlanPage
from tenantry.services import open_services

group = new_group("Migrate every tenant database.")


class AdminUnclear(Invalid):
    """There are several active admins: set the one that starts the run with --by EMAIL."""


class NoSuchAdmin(Invalid):
    """--by must be the e-mail address of an active admin; `tenantry admin list` lists them."""


class NoMigrations(Invalid):
    """Set TENANTRY_TENANT_MIGRATIONS to the folder for your revisions, such as `migrations`."""


class DraftResponse(Schema, frozen=True):
    """A new revision."""

    revision: str
    name: str
    path: str


class RunResult(MigrationResultResponse, frozen=True):
    """The result of a run, with the id for `--retry`."""

    run_id: UUID


@group.command("new")
def new(
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What the revision does.")],
    as_json: options.Json = False,
) -> None:
    """Create the file of a new revision, after the newest one."""
    settings = session.configure()
    if settings.tenant_migrations is None:
        raise NoMigrations
    draft = revision_template.write_draft(settings.tenant_migrations, message)
    if as_json:
        output.show_json(DraftResponse(draft.id, draft.name, str(draft.path)))
        return
    output.show_line(str(draft.path))
    output.note("Complete it; `tenantry migrate plan` then shows which tenants would get it.")


@group.command("plan")
async def plan(
    *,
    tenant: run_options.Tenants = None,
    retry: run_options.Retry = None,
    only_behind: run_options.OnlyBehind = False,
    wave: run_options.Waves = None,
    max_failures: run_options.MaxFailures = None,
    label: run_options.Label = None,
    rehearse: Annotated[
        bool, typer.Option(help="Run pending revisions, with their locks, and roll them back.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Inspect every tenant's database, print what a run would do, and store it as a plan.

    No tenant is changed. `migrate all --plan` runs exactly the plan. The exit status is 1 if a
    tenant has failed. A tenant with pending revisions that cannot be rehearsed has not failed.
    """
    async with session.opened() as services:
        await progress.check_revisions(services)
        chosen = await run_options.options_of(
            services.catalog,
            named=tenant,
            retry=retry,
            waves=wave,
            max_failures=max_failures,
            label=label,
            only_behind=only_behind,
        )
        preview = await services.fleet.preview(session.context(), chosen, rehearse=rehearse)
    if as_json:
        output.show_json(MigrationPreviewResponse.of(preview))
    else:
        plan_reports.show_preview(preview, rehearsed=rehearse)
    if preview.failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


@group.command("plans")
async def plans(
    plan_id: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="The id of a plan. Default: list them.")
    ] = None,
    *,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_DEFAULT,
    as_json: options.Json = False,
) -> None:
    """List the stored plans, the newest first, or show one with the result of each tenant."""
    async with session.opened() as services:
        catalog = services.catalog
        if plan_id is None:
            found = await stored_plans.page(catalog, Window(page, page_size))
            if as_json:
                output.show_json(PlanPage.of_page(found))
            else:
                plan_reports.show_plans(found)
            return
        plan = await stored_plans.get(catalog, read_id(plan_id, PlanNotFound))
        causes = await stored_plans.causes(catalog, plan.id)
        tenants = [one async for one in stored_plans.each_tenant(catalog, plan.id)]
    if as_json:
        output.show_json(PlanDetailResponse.of_plan(plan, causes, tenants))
    else:
        plan_reports.show_plan(plan, causes, tenants)


@group.command("all")
def migrate_fleet(
    *,
    by: Annotated[
        str | None, typer.Option(help="The admin that starts the run. Default: the only one.")
    ] = None,
    tenant: run_options.Tenants = None,
    retry: run_options.Retry = None,
    only_behind: run_options.OnlyBehind = False,
    wave: run_options.Waves = None,
    max_failures: run_options.MaxFailures = None,
    label: run_options.Label = None,
    plan: run_options.PlanId = None,
    passed_only: run_options.PassedOnly = False,
    as_json: options.Json = False,
) -> None:
    """Migrate every active tenant to the newest revision."""
    # Failures are in the result.
    settings = session.configure(log_level="error")

    async def migrate() -> Found:
        async with open_services(settings) as services:
            process.settle()
            catalog = services.catalog
            email = await _only_admin(catalog) if by is None else await _active_admin(catalog, by)
            chosen = await run_options.options_of(
                catalog,
                named=tenant,
                retry=retry,
                waves=wave,
                max_failures=max_failures,
                label=label,
                only_behind=only_behind,
            )
            return await progress.migrate_all(
                services,
                triggered_by=email,
                options=chosen,
                plan_id=None if plan is None else read_id(plan, PlanNotFound),
                passed_only=passed_only,
            )

    ended = process.run(migrate())
    if as_json:
        details = [MigrationDetailResponse.of(item) for item in ended.items]
        output.show_json(RunResult.of(ended.run, details=details, run_id=ended.run.id))
    else:
        reports.show_outcome(ended)
        output.note(f"Details: `tenantry migrate show {ended.run.id}`.")
        if ended.run.failed_count:
            output.note(f"Retry: `tenantry migrate all --retry {ended.run.id}`.")
    _exit_after(ended.run)


@group.command("status")
async def status(*, as_json: options.Json = False) -> None:
    """Show the number of tenants at each revision, and the active runs."""
    async with session.reading() as services:
        catalog = services.catalog
        counts = await schema_status(catalog, services.streams())
        unfinished = [await runs.get(catalog, run.id) for run in await runs.unfinished(catalog)]
        running = [
            MigrationRunStateResponse.of_state(run, await activity_of(catalog, run))
            for run in unfinished
        ]
    found = StatusResponse.of(counts, running=running)
    if as_json:
        output.show_json(found)
    else:
        reports.show_status(found)


@group.command("history")
async def history(
    *,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_DEFAULT,
    as_json: options.Json = False,
) -> None:
    """List the migration runs, the newest first."""
    async with session.reading() as services:
        found = await runs.page(services.catalog, Window(page, page_size))
        detailed = await _with_details(services.catalog, found) if as_json else None
    if detailed is not None:
        output.show_json(detailed)
    else:
        reports.show_history(found)


@group.command("show")
async def show(
    run: Annotated[
        str | None,
        typer.Argument(help="The id of the run. Default: the newest.", autocompletion=run_ids),
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait until it has ended, even in another process.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show one migration run, and the result of each tenant.

    The exit status is 1 if a tenant has failed, with and without --watch.
    """
    async with session.reading() as services:
        catalog = services.catalog
        run_id = await _newest(catalog) if run is None else read_id(run, MigrationRunNotFound)
        if watch:
            await progress.watch(catalog, run_id)
        found = await progress.found(catalog, await runs.get(catalog, run_id))
    if as_json:
        output.show_json(MigrationRunResponse.of_run(found.run, found.items, found.activity))
    else:
        reports.show_run(found)
    _exit_after(found.run)


@group.command("cancel")
async def cancel(
    run: Annotated[str, typer.Argument(help="The id of the run.", autocompletion=run_ids)],
    *,
    as_json: options.Json = False,
) -> None:
    """Cancel a migration run: tenants in work finish, others are not started."""
    async with session.opened() as services:
        run_id = read_id(run, MigrationRunNotFound)
        await services.fleet.cancel(session.context(), run_id, ends_all=True)
    output.show_done(
        "The run is cancelled: tenants in work finish, others are not started.", as_json=as_json
    )


def _exit_after(run: MigrationRun) -> None:
    if run.failed_count:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


async def _active_admin(catalog: Catalog, email: str) -> str:
    account = await admins.find_account(catalog, canonical_email(email))
    if account is None or not account.is_active:
        raise NoSuchAdmin
    return account.email


async def _only_admin(catalog: Catalog) -> str:
    active = [admin.email for admin in await admins.every(catalog) if admin.is_active]
    if not active:
        raise AdminUnclear("There is no active admin: `tenantry admin create EMAIL` creates one.")
    if len(active) > 1:
        raise AdminUnclear
    return active[0]


async def _with_details(catalog: Catalog, page: Page[MigrationRun]) -> MigrationRunPage:
    items = [
        MigrationRunResponse.of_run(
            run, await runs.ended(catalog, run.id), await activity_of(catalog, run)
        )
        for run in page.items
    ]
    window = page.window
    return MigrationRunPage(items, window.page, window.size, page.total_count, page.total_pages)


async def _newest(catalog: Catalog) -> UUID:
    newest = (await runs.page(catalog, Window(1, 1))).items
    if not newest:
        raise MigrationRunNotFound
    return newest[0].id
