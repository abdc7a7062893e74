"""The commands of ``tenantry migrate`` that only read. They import what reads the catalog."""

from typing import Annotated
from uuid import UUID

import typer

from tenantry.catalog import run_results, runs, stored_plans
from tenantry.catalog.activity import activity_of
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun, MigrationRunNotFound
from tenantry.catalog.stored_plans import PlanNotFound
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.completion import run_ids
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.finding import read_id
from tenantry.cli.printing import output, plan_reports, progress, reports
from tenantry.cli.printing.reports import StatusResponse
from tenantry.fleet.status import schema_status
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Page, Window
from tenantry.schemas.migrations import (
    MigrationRunPage,
    MigrationRunResponse,
    MigrationRunStateResponse,
)
from tenantry.schemas.plans import PlanDetailResponse, PlanPage

group = new_group("Migrate every tenant database.")


@group.command("plans")
async def plans(
    plan_id: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="The id of a plan. Default: list them.")
    ] = None,
    *,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_DEFAULT,
) -> None:
    """List the stored plans, the newest first, or show one with the result of each tenant."""
    async with session.reading() as opened:
        catalog = opened.catalog
        if plan_id is None:
            found = await stored_plans.page(catalog, Window(page, page_size))
            if not output.shown_as_json(PlanPage.of_page(found)):
                plan_reports.show_plans(found)
            return
        plan = await stored_plans.get(catalog, read_id(plan_id, PlanNotFound))
        causes = await stored_plans.causes(catalog, plan.id)
        tenants = [one async for one in stored_plans.each_tenant(catalog, plan.id)]
    if output.wants_json():
        output.show_json(PlanDetailResponse.of_plan(plan, causes, tenants))
    else:
        plan_reports.show_plan(plan, causes, tenants)


@group.command("status")
async def status() -> None:
    """Show the number of tenants at each revision, and the active runs."""
    async with session.reading() as opened:
        catalog = opened.catalog
        counts = await schema_status(catalog, opened.streams())
        unfinished = [await runs.get(catalog, run.id) for run in await runs.unfinished(catalog)]
        active = [(run, await activity_of(catalog, run)) for run in unfinished]
    running = [MigrationRunStateResponse.of_state(run, activity) for run, activity in active]
    found = StatusResponse.of(counts, running=running)
    if not output.shown_as_json(found):
        reports.show_status(found, left={run.id for run, activity in active if activity.is_left})


@group.command("history")
async def history(
    *, page: options.Page = 1, page_size: options.PageSize = PAGE_SIZE_DEFAULT
) -> None:
    """List the migration runs, the newest first."""
    async with session.reading() as opened:
        found = await runs.page(opened.catalog, Window(page, page_size))
        if output.wants_json():
            output.show_json(await _with_details(opened.catalog, found))
        else:
            undos = await runs.undos(opened.catalog, [run.id for run in found.items])
            undone = {one.undoes for one in undos if one.undoes is not None}
            left = await run_results.not_undone(opened.catalog, undone)
            reports.show_history(found, undos, left)


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
) -> None:
    """Show one migration run, and the result of each tenant.

    The exit status is 1 if a tenant has failed, with and without --watch.
    """
    async with session.reading() as opened:
        catalog = opened.catalog
        run_id = await _newest(catalog) if run is None else read_id(run, MigrationRunNotFound)
        if watch:
            await progress.watch(catalog, run_id)
        found = await progress.found(catalog, await runs.get(catalog, run_id))
    if output.wants_json():
        output.show_json(MigrationRunResponse.of_run(found.run, found.items, found.activity))
    else:
        reports.show_run(found)
    exit_after(found.run)


def exit_after(run: MigrationRun) -> None:
    """Exit with `TENANTS_FAILED` if a tenant has failed in *run*."""
    if run.failed_count:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


async def _with_details(catalog: Catalog, page: Page[MigrationRun]) -> MigrationRunPage:
    items = [
        MigrationRunResponse.of_run(
            run, await runs.ended(catalog, run.id), await activity_of(catalog, run)
        )
        for run in page.items
    ]
    return MigrationRunPage.of_page(page, items)


async def _newest(catalog: Catalog) -> UUID:
    newest = (await runs.page(catalog, Window(1, 1))).items
    if not newest:
        raise MigrationRunNotFound
    return newest[0].id
