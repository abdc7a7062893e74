"""``tenantry openapi``: the description of the HTTP API."""

from pathlib import Path
from typing import Annotated

import typer

from tenantry.api.table import DESCRIPTION
from tenantry.cli import options, output


def openapi(
    *,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it there, and print nothing.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the OpenAPI description of the HTTP API, which is JSON in any case."""
    del as_json
    if file is None:
        output.show_json(DESCRIPTION)
    else:
        file.write_text(output.json_text(DESCRIPTION), encoding="utf-8")
