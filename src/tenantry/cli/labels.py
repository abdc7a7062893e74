"""``tenantry tenant label``: the labels of one tenant, or of many from a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli import session
from tenantry.cli.completion import tenant_names
from tenantry.cli.exit_status import Misuse
from tenantry.cli.finding import opened_tenant
from tenantry.cli.printing import output
from tenantry.cli.prompts import interruptible
from tenantry.cli.tenant_reading import show_tenant
from tenantry.fleet import labelling
from tenantry.schemas.base import Schema

STANDARD_INPUT = "-"


class LabelledResponse(Schema, frozen=True):
    """How many tenants the file names, and how many of them have other labels now."""

    total: int
    changed: int


async def label(
    tenant: Annotated[
        str | None,
        typer.Argument(help="The tenant's id or its name.", autocompletion=tenant_names),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Argument(help="KEY=VALUE sets a label, KEY- removes it. Others stay."),
    ] = None,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Many tenants: a CSV file, or - for standard input, with the columns `name` and "
            "keys. An empty cell leaves a label as it is, - removes it.",
        ),
    ] = None,
) -> None:
    """Set and remove labels of a tenant, by which tenants are selected.

    With --from, every line is checked before a tenant is changed.
    """
    if (tenant is None or not change) if source is None else tenant is not None:
        raise Misuse("Name a tenant and changes of its labels, or use --from FILE.")
    if source is not None:
        await _import(_read(source))
        return
    async with opened_tenant(tenant or "") as (services, found):
        changed = await labelling.label(session.context(), services.catalog, found.id, change or [])
    show_tenant(changed)


async def _import(content: bytes) -> None:
    async with session.opened() as services:
        ended = await labelling.import_labels(session.context(), services.catalog, content)
    if not output.shown_as_json(LabelledResponse(ended.total, ended.changed)):
        output.show_line(f"{ended.changed:,} of {ended.total:,} tenants have other labels now.")


def _read(source: str) -> bytes:
    if source == STANDARD_INPUT:
        with interruptible():
            return sys.stdin.buffer.read(labelling.BYTES_MAX + 1)
    with Path(source).open("rb") as file:
        return file.read(labelling.BYTES_MAX + 1)
