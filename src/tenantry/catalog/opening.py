"""Open the catalog, without Alembic: a command that only reads imports little."""

from pathlib import Path

from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.migration.schema_state import READ_VERSION
from tenantry.settings import Settings

# Each file is named after its revision, and they are one line; a contract test compares this.
HEAD = max(file.stem for file in Path(__file__).parent.glob("revisions/versions/[0-9]*.py"))[:4]


def open_catalog(settings: Settings, pace: Pace = PACE) -> Catalog:
    """Return the catalog of the settings, without connecting to it yet."""
    return Catalog(
        settings.catalog,
        connections_max=settings.catalog_connections,
        timeout_seconds=settings.connect_timeout_s,
        synchronous=settings.sqlite_synchronous,
        statement_seconds=settings.statement_timeout_s,
        pace=pace,
    )


async def is_at_head(catalog: Catalog) -> bool:
    """Return whether the catalog needs no migration; False if it cannot be read."""
    try:
        found = await catalog.fetch_one(READ_VERSION)
    except DatabaseUnavailable:
        return False
    return found is not None and found.version_num >= HEAD
