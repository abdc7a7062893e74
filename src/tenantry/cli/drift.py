"""``tenantry drift``: tenants with another schema than their revision defines."""

from typing import Annotated

import typer

from tenantry.backup.drift_check import check_drift
from tenantry.catalog import tenant_list
from tenantry.cli import drift_reading, options, session, transfer
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import find_tenant
from tenantry.fleet.drift import DriftReport
from tenantry.kit.pages import Window

group = new_group("Find tenants with a schema that has drifted.", reading=drift_reading.group)


@group.command("check")
async def check(
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="[TENANT]", help="An id or a name; every tenant by default."),
    ] = None,
    *,
    where: options.Where = None,
) -> None:
    """Compare the schema of each tenant at the head with that of a new database.

    Tables, columns, indexes, constraints and so on are compared by name, type and structure;
    expressions are not. Nothing is changed in the databases. Exits with 1 if a tenant has drifted,
    or could not be read.
    """
    if tenant is not None and where is not None:
        raise Misuse("Use either a tenant or --where.")
    report = DriftReport()
    async with transfer.job(session.configure(), shows_bytes=False) as (services, progress):
        chosen = None if tenant is None else await find_tenant(services.catalog, tenant)
        total = 1
        if chosen is None:
            page = await tenant_list.page(services.catalog, Window(1, 1), where=where)
            total = page.total_count
        with transfer.counted("Comparing", lambda: report.total, total=total):
            await check_drift(
                session.context(),
                services.copying,
                report,
                tenant=chosen,
                where=where,
                progress=progress,
            )
    drift_reading.show_report(report)
