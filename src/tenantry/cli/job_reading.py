"""``tenantry backup jobs``. It imports only what reads the catalog."""

from tenantry.catalog import jobs
from tenantry.cli import options, session
from tenantry.cli.commands import new_group
from tenantry.cli.printing import output
from tenantry.kit.pages import PAGE_SIZE_MAX, Window
from tenantry.schemas.backups import JobPage

group = new_group("Back up tenants, and restore them from archives.")


@group.command("jobs")
async def show_jobs(*, page: options.Page = 1, page_size: options.PageSize = PAGE_SIZE_MAX) -> None:
    """List backups, restores, copies, moves and checks, newest first."""
    async with session.reading() as services:
        found = await jobs.page(services.catalog, Window(page, page_size))
    columns = [
        output.unwrapped("Started"),
        output.unwrapped("Kind"),
        "Tenant",
        output.unwrapped("State"),
        "Error, kept database or note",
    ]
    rows = [
        (
            output.minute(one.started_at),
            one.kind,
            one.tenant_name,
            one.state,
            one.error or one.database_name or one.note,
        )
        for one in found.items
    ]
    output.show_page(JobPage.of_page(found), found, "jobs", columns, rows)
