"""``tenantry fleet drift`` and ``stamp``: what is done with each database, and is no run."""

from collections.abc import Sequence

import typer

from tenantry.catalog import drift
from tenantry.cli import drift_reading, session
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.finding import find_tenant
from tenantry.cli.printing import output
from tenantry.cli.session import Place
from tenantry.fleet import stamping
from tenantry.fleet.drift import DriftCheck, DriftReport
from tenantry.fleet.templates import Templates
from tenantry.kit.pages import PAGE_SIZE_MAX, Window
from tenantry.schemas.drift import StampReportResponse
from tenantry.work.ledger import Ledger
from tenantry.work.undoing import reap


async def check_drift(place: Place) -> None:
    """Compare each database at the head with a new one; see ``tenantry fleet drift``.

    Raises:
        typer.Exit: One has drifted, or cannot be read.
        Exception: As for `Place.working` and `DriftCheck.check`.
    """
    report = DriftReport()
    async with place.working(works=False) as services:
        catalog, databases, migrator = services.catalog, services.databases, services.migrator
        ledger = Ledger(catalog=catalog, databases=databases, heartbeat=services.heartbeat)
        await reap(ledger, {})
        check = DriftCheck(
            catalog=catalog,
            databases=databases,
            migrator=migrator,
            templates=Templates(ledger, migrator),
            streams=services.streams,
            concurrency=services.options.concurrency,
        )
        await check.check(session.context(), report)
        found = await drift.page(catalog, Window(1, PAGE_SIZE_MAX))
    drift_reading.show_report(report, found)


async def stamp(place: Place, revision: str, names: Sequence[str]) -> None:
    """Write a revision to databases that have none; see ``tenantry fleet stamp``.

    Raises:
        typer.Exit: One was not stamped.
        TenantNotFound: There is no database of a name in *names*.
        Exception: As for `Place.working` and `stamping.stamp`.
    """
    async with place.working(works=False) as services:
        only = [await find_tenant(services.catalog, one) for one in names]
        report = await stamping.stamp(services, session.context(), revision, only=only)
    if not output.shown_as_json(StampReportResponse.of_report(report)):
        for name, error in report.refused:
            output.show_line(f"{name}: {error}")
        output.show_line(
            f"{report.stamped:,} stamped, {report.unchanged:,} at this revision already, "
            f"{report.refused_count:,} not stamped."
        )
    if report.refused_count:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)
