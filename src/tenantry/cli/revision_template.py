"""``tenantry migrate new``: write a new revision for a developer to complete."""

from typing import Annotated

import typer

from tenantry.cli import options, output, session
from tenantry.kit.errors import Invalid
from tenantry.migration import revision_template
from tenantry.schemas.base import Schema


class NoMigrations(Invalid):
    """Set TENANTRY_TENANT_MIGRATIONS to the folder for your revisions, such as `migrations`."""


class DraftResponse(Schema, frozen=True):
    """A new revision."""

    revision: str
    name: str
    path: str


def new(
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What the revision does.")],
    as_json: options.Json = False,
) -> None:
    """Create the file of a new revision, after the newest one."""
    settings = session.configure()
    if settings.tenant_migrations is None:
        raise NoMigrations
    draft = revision_template.write_draft(settings.tenant_migrations, message)
    if as_json:
        output.show_json(DraftResponse(draft.id, draft.name, str(draft.path)))
        return
    output.show_line(str(draft.path))
    output.note("Complete it; `tenantry migrate plan` then shows which tenants would get it.")
