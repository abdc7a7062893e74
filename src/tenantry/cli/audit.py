"""``tenantry audit``: who changed what."""

import asyncio

from rich.table import Column

from tenantry.catalog import audit as catalog_audit
from tenantry.catalog.audit import AuditEntry
from tenantry.cli import options, output, session
from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Page, Window
from tenantry.schemas.admins import AuditPage
from tenantry.settings import Settings


def audit(
    *,
    page: options.Page = 1,
    page_size: options.PageSize = PAGE_SIZE_DEFAULT,
    as_json: options.Json = False,
) -> None:
    """List who changed what, the newest first."""
    found = asyncio.run(_page(session.configure(), Window(page, page_size)))
    if as_json:
        output.show_json(AuditPage.of(found))
        return
    columns = [
        Column("At, UTC", no_wrap=True),
        Column("Who", overflow="fold"),
        Column("What", overflow="fold"),
        Column("To what", no_wrap=True),
    ]
    rows = [(output.minute(one.at), one.actor, one.action, one.target) for one in found.items]
    output.show_table(columns, rows)
    output.note_page(found, "changes")


async def _page(settings: Settings, window: Window) -> Page[AuditEntry]:
    async with session.opened(settings) as services:
        return await catalog_audit.page(services.catalog, window)
