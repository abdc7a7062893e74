"""``tenantry migrate new``: a revision to fill in."""

from typing import Annotated

import typer

from tenantry.cli import options, output, session
from tenantry.kit.errors import Invalid
from tenantry.migration import revision_template
from tenantry.schemas.base import Schema


class NoMigrations(Invalid):
    """TENANTRY_TENANT_MIGRATIONS must say where your revisions are to be: `migrations`, say."""


class DraftResponse(Schema, frozen=True):
    """A revision that was begun."""

    revision: str
    name: str
    path: str


def new(
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What the revision does.")],
    as_json: options.Json = False,
) -> None:
    """Write a revision of your own to fill in, after the newest one."""
    settings = session.configure()
    if settings.tenant_migrations is None:
        raise NoMigrations
    draft = revision_template.write_draft(settings.tenant_migrations, message)
    if as_json:
        output.show_json(DraftResponse(draft.id, draft.name, str(draft.path)))
        return
    output.show_line(str(draft.path))
    output.note("Fill it in; `tenantry migrate plan` then shows who would get it.")
