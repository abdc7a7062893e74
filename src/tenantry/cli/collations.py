"""``tenantry collation``: what an upgrade of the libraries that sort text requires."""

import typer

from tenantry.backup.collations import CollationReport, refresh_all
from tenantry.catalog import tenant_counts
from tenantry.cli import session, transfer
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.schemas.backups import CollationReportResponse

group = new_group("Rebuild indexes after an upgrade of the libraries that sort text.")


@group.command("refresh")
async def refresh() -> None:
    """Rebuild the outdated indexes of the catalog and every tenant, and record the versions.

    Run it after an upgrade of the operating system, libc or ICU of a PostgreSQL server. A table
    rejects writes while its indexes are rebuilt. Exits with 1 if a database is not up to date.
    """
    report = CollationReport()
    async with session.opened() as services:
        total = 1 + await tenant_counts.total(services.catalog)
        counted = transfer.counted("Checking", lambda: report.checked, total=total)
        with transfer.cancelled_by_signals(), counted:
            await refresh_all(session.context(), services.copying, report)
    if not output.shown_as_json(CollationReportResponse.of_report(report)):
        for name, error in report.failed:
            output.show_line(f"{name}: {error}")
        output.show_line(
            f"{report.checked:,} databases checked, {report.refreshed:,} brought up to date, "
            f"{report.indexes:,} indexes rebuilt, {report.failed_count:,} failed."
        )
    if report.failed_count:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)
