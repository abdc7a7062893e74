"""``tenantry drift list``. It imports only what reads the catalog."""

from typing import TYPE_CHECKING

import typer

from tenantry.catalog import drift
from tenantry.catalog.drift import Drifted
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.db.copying.schema_listing import Difference
from tenantry.kit.pages import PAGE_SIZE_MAX, Page, Window
from tenantry.schemas.drift import DriftPage, DriftReportResponse

if TYPE_CHECKING:
    from tenantry.fleet.drift import DriftReport

group = new_group("Find tenants with a schema that has drifted.")


@group.command("list")
async def show_drifted(
    *,
    where: options.Where = None,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_MAX,
) -> None:
    """List the tenants that have drifted, and what differs, by the last check of each."""
    async with session.reading() as services:
        found = await drift.page(services.catalog, Window(page, page_size), where=where)
    if not output.shown_as_json(DriftPage.of_page(found)):
        show_differences(found)
        output.note_page(found, "tenants")


def show_differences(found: Page[Drifted]) -> None:
    """Print what differs, one line each."""
    columns = ["Tenant", output.unwrapped("Checked"), "Difference"]
    rows = [
        (one.name, output.minute(one.drifted_at), _line(difference))
        for one in found.items
        for difference in one.differences
    ]
    output.show_table(columns, rows)


def show_report(report: "DriftReport", found: Page[Drifted] | None = None) -> None:
    """Print the result of a check, with what differs if it was *found* as well.

    Raises:
        typer.Exit: A database has drifted, or could not be read.
    """
    if not output.shown_as_json(DriftReportResponse.of_report(report)):
        if found is not None:
            show_differences(found)
        for name, error in report.unreadable:
            output.show_line(f"{name}: {error}")
        output.show_line(f"{report.counts}.")
        if report.drifted and found is None:
            output.note("`tenantry drift list` shows what differs.")
    if report.drifted or report.unreadable_count:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


def _line(one: Difference) -> str:
    what = f"{one.kind} {one.name}"
    if one.found is None:
        return f"missing: {what}"
    if one.expected is None:
        return f"not defined: {what}"
    return f"{what}: {one.found or 'nothing'} instead of {one.expected or 'nothing'}"
