"""``tenantry openapi``: the description of the HTTP API."""

from pathlib import Path
from typing import Annotated

import typer

from tenantry.api.table import description
from tenantry.cli.commands import new_group
from tenantry.cli.printing import output

group = new_group()


@group.command("openapi")
def openapi(
    *,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write it to this file, and print nothing."),
    ] = None,
) -> None:
    """Print the OpenAPI description.

    It describes the HTTP API, and is JSON with and without --json.
    """
    if file is None:
        output.show_json(description())
    else:
        file.write_text(output.json_text(description()), encoding="utf-8")
