"""``tenantry tenant export``: the data of a tenant as files."""

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli import options, output, session
from tenantry.cli.finding import opened_tenant
from tenantry.db.row_formats import RowFormat


async def export(
    tenant: options.Tenant,
    folder: Annotated[Path, typer.Argument(help="The new folder for the files.")],
    *,
    row_format: Annotated[
        RowFormat, typer.Option("--format", help="The format of the rows.")
    ] = RowFormat.JSON_LINES,
    as_json: options.Json = False,
) -> None:
    """Export every table of a tenant as JSON lines or CSV, with the schema.

    Password hashes and sessions are left out.
    """
    async with opened_tenant(tenant) as (services, found):
        manifest = await services.export.write(
            session.context(), found, folder, row_format=row_format
        )
    if as_json:
        output.show_json(manifest)
        return
    columns = ["Table", output.number("Rows"), "File"]
    rows = [(one.name, f"{one.rows:,}", folder / one.file) for one in manifest.tables]
    output.show_table(columns, rows)
